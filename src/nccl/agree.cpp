#include "nccl/agree.h"

#include <cstring>
#include <utility>

#include "base/fields.h"
#include "kolo/error.h"
#include "nccl/library.h"

namespace kolo::nccl {
namespace {

constexpr std::size_t kFields = 7;

[[noreturn]] void throw_malformed(const std::string& what) {
  throw BackendError("NCCL: malformed setup message from a rank: " + what +
                     ". Do all ranks run the same build of kolo?");
}

std::string hex_of(const UniqueId& id) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : id.bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

unsigned digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
  throw_malformed(std::string("'") + c + "' is not a hexadecimal digit");
}

UniqueId id_of(const std::string& text) {
  UniqueId id{};
  if (text.size() != 2 * sizeof(id.bytes)) {
    throw_malformed("unique id of " + std::to_string(text.size()) + " digits, not " +
                    std::to_string(2 * sizeof(id.bytes)));
  }
  for (std::size_t i = 0; i < sizeof(id.bytes); ++i) {
    id.bytes[i] = static_cast<char>(digit(text[2 * i]) << 4U | digit(text[2 * i + 1]));
  }
  return id;
}

int number(const std::string& text) {
  try {
    return std::stoi(text);
  } catch (const std::exception&) {
    throw_malformed("'" + text + "' is not a number");
  }
}

std::string named(std::size_t rank, const RankFacts& facts) { return base::rank_text(rank, facts.host); }

void check_devices(const std::vector<RankFacts>& ranks) {
  const std::string text = base::troubles_of(ranks);
  if (!text.empty()) {
    throw UsageError("cannot create an NCCL communicator: " + text +
                     ". Every rank needs a CUDA device and NCCL, or all ranks must use CPU memory");
  }
}

void check_equal(const std::vector<RankFacts>& ranks) {
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    if (ranks[r].version != ranks[0].version) {
      throw MismatchError("NCCL versions differ between ranks: " + named(0, ranks[0]) + " has " +
                          version_text(ranks[0].version) + ", " + named(r, ranks[r]) + " has " +
                          version_text(ranks[r].version) + ". Install the same version on all hosts");
    }
    if (ranks[r].options != ranks[0].options) {
      throw MismatchError("NCCL settings differ between ranks: " + named(0, ranks[0]) + " has " + ranks[0].options +
                          "; " + named(r, ranks[r]) + " has " + ranks[r].options +
                          ". Set NCCL_ALGO, KOLO_NCCL_MAX_CTAS and KOLO_NCCL_REGISTRATION alike on all ranks");
    }
  }
}

}  // namespace

std::string encode(const RankFacts& facts) {
  std::vector<std::string> fields{facts.trouble, facts.host, facts.device};
  fields.push_back(std::to_string(facts.version));
  fields.push_back(facts.options);
  fields.push_back(facts.network);
  fields.push_back(hex_of(facts.id));
  return base::join_fields(std::move(fields));
}

RankFacts decode(const std::string& text) {
  const auto fields = base::split_fields(text);
  if (fields.size() != kFields) throw_malformed("'" + text + "'");
  RankFacts facts;
  facts.trouble = fields[0];
  facts.host = fields[1];
  facts.device = fields[2];
  facts.version = number(fields[3]);
  facts.options = fields[4];
  facts.network = fields[5];
  facts.id = id_of(fields[6]);
  return facts;
}

void check_agreement(const std::vector<RankFacts>& ranks) {
  check_devices(ranks);
  check_equal(ranks);
}

std::vector<RankFacts> agree(const Exchange& exchange, const RankFacts& mine) {
  std::vector<RankFacts> ranks;
  for (const std::string& text : exchange(encode(mine))) ranks.push_back(decode(text));
  check_agreement(ranks);
  return ranks;
}

}  // namespace kolo::nccl
