// Bytes that anybody may send to a monitor's port: nothing, or a message whose bytes are exactly these, in memory that
// is a small multiple of theirs, beside one list of ranks, which travels as runs.
#include "cluster/monitor_messages.h"
#include "fuzz/memory_meter.h"
#include "fuzz/property.h"

namespace {

using namespace kolo;
using namespace kolo::cluster;

constexpr std::size_t kPerByte = 16;
constexpr std::size_t kFixed = 1024;
constexpr std::size_t kList = 2 * kMostListed * sizeof(Rank);  // and what it is moved to as it grows

void claim_limits(const Standings& standings) {
  for (const auto& standing : standings) KOLO_CLAIM(standing.rank >= 0 && standing.condition <= Condition::left);
}

void claim_limits(const Agreement& agreement) {
  KOLO_CLAIM(agreement.members.size() <= kMostListed);
  for (const Rank rank : agreement.members) KOLO_CLAIM(rank >= 0);
}

struct Limits {
  void operator()(const Greeting& greeting) const { KOLO_CLAIM(greeting.from >= 0 && greeting.to >= 0); }
  void operator()(const Beat& /*beat*/) const {}
  void operator()(const Goodbye& /*goodbye*/) const {}
  void operator()(const News& news) const { claim_limits(news.standings); }
  void operator()(const Proposal& proposal) const {
    claim_limits(proposal.proposed);
    claim_limits(proposal.standings);
  }
  void operator()(const Vote& vote) const {
    claim_limits(vote.agreed);
    claim_limits(vote.standings);
  }
  void operator()(const Verdict& verdict) const { claim_limits(verdict.agreed); }
  void operator()(const Arrival& /*arrival*/) const {}
  void operator()(const Question& question) const { KOLO_CLAIM(question.operation.size() <= kLongestText); }
  void operator()(const Reply& reply) const { KOLO_CLAIM(reply.doing.size() <= kLongestText); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const fuzz::MemoryMeter meter;
  const auto message = decode(bytes);
  KOLO_CLAIM(meter.peak() <= kFixed + kPerByte * size + kList);
  if (!message) return 0;
  const auto again = encode(*message);
  KOLO_CLAIM(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  KOLO_CLAIM(decode(again) == message);
  std::visit(Limits{}, *message);
  return 0;
}
