#include "cluster/monitor_messages.h"

#include <algorithm>
#include <concepts>
#include <limits>
#include <utility>

namespace kolo::cluster {
namespace {

// Every message lists its fields once, for the writer and for the reader.
template <class Visitor>
void fields(Visitor& visit, Standing& value) {
  visit(value.rank, value.condition);
}
// Of a list of ranks, which has 10,000 and lacks one: how they follow each other.
struct Runs {
  std::vector<Rank>& ranks;
};
template <class Visitor>
void fields(Visitor& visit, Agreement& value) {
  Runs members{value.members};
  visit(value.epoch, members);
}
template <class Visitor>
void fields(Visitor& visit, Greeting& value) {
  visit(value.token, value.from, value.to);
}
template <class Visitor>
void fields(Visitor& /*visit*/, Beat& /*value*/) {}
template <class Visitor>
void fields(Visitor& /*visit*/, Goodbye& /*value*/) {}
template <class Visitor>
void fields(Visitor& visit, News& value) {
  visit(value.standings, value.asks, value.doubt);
}
template <class Visitor>
void fields(Visitor& visit, Proposal& value) {
  visit(value.proposed, value.standings);
}
template <class Visitor>
void fields(Visitor& visit, Vote& value) {
  visit(value.epoch, value.accepted, value.doubt, value.highest, value.agreed, value.standings);
}
template <class Visitor>
void fields(Visitor& visit, Verdict& value) {
  visit(value.agreed, value.majority);
}
template <class Visitor>
void fields(Visitor& visit, Arrival& value) {
  visit(value.epoch, value.all);
}
template <class Visitor>
void fields(Visitor& visit, Question& value) {
  visit(value.from, value.to, value.number, value.operation);
}
template <class Visitor>
void fields(Visitor& visit, Reply& value) {
  visit(value.from, value.to, value.number, value.waits, value.doing);
}

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}
  template <class... Fields>
  void operator()(Fields&... values) {
    (put(values), ...);
  }

 private:
  template <std::unsigned_integral Number>
  void put(Number value) {
    for (std::size_t i = 0; i < sizeof(Number); ++i) {
      out_.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i)));
    }
  }
  void put(bool value) { put(static_cast<std::uint8_t>(value)); }
  void put(Rank value) { put(static_cast<std::uint32_t>(value)); }
  void put(Condition value) { put(static_cast<std::uint8_t>(value)); }
  void put(const Token& value) { out_.insert(out_.end(), value.begin(), value.end()); }
  void put(const std::string& value) {
    const std::size_t length = std::min(value.size(), kLongestText);
    put(static_cast<std::uint32_t>(length));
    const auto* begin = reinterpret_cast<const std::byte*>(value.data());
    out_.insert(out_.end(), begin, begin + length);
  }
  template <class Element>
  void put(std::vector<Element>& values) {
    put(static_cast<std::uint32_t>(values.size()));
    for (auto& value : values) put(value);
  }
  void put(const Runs& value) {
    std::vector<std::pair<Rank, std::uint32_t>> runs;  // the first, and how many
    for (const Rank rank : value.ranks) {
      if (!runs.empty() && rank == runs.back().first + static_cast<Rank>(runs.back().second)) {
        ++runs.back().second;
      } else {
        runs.emplace_back(rank, 1U);
      }
    }
    put(static_cast<std::uint32_t>(runs.size()));
    for (const auto& [first, count] : runs) {
      put(first);
      put(count);
    }
  }
  void put(Standing& value) { fields(*this, value); }
  void put(Agreement& value) { fields(*this, value); }

  std::vector<std::byte>& out_;
};

// Once something is wrong all that follows is left as it is.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  template <class... Fields>
  void operator()(Fields&... values) {
    (get(values), ...);
  }
  [[nodiscard]] bool all_right() const { return right_ && in_.empty(); }

 private:
  std::span<const std::byte> take(std::size_t count) {
    right_ = right_ && count <= in_.size();
    if (!right_) return {};
    const auto taken = in_.first(count);
    in_ = in_.subspan(count);
    return taken;
  }
  template <std::unsigned_integral Number>
  void get(Number& value) {
    std::uint64_t number = 0;
    const auto bytes = take(sizeof(Number));
    for (std::size_t i = 0; i < bytes.size(); ++i) number |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
    value = static_cast<Number>(number);
  }
  void get(bool& value) {
    std::uint8_t number = 0;
    get(number);
    right_ = right_ && number <= 1;
    value = number == 1;
  }
  void get(Rank& value) {
    std::uint32_t number = 0;
    get(number);
    right_ = right_ && number <= 0x7fffffffU;
    value = static_cast<Rank>(number);
  }
  void get(Condition& value) {
    std::uint8_t number = 0;
    get(number);
    right_ = right_ && number <= static_cast<std::uint8_t>(Condition::left);
    value = right_ ? static_cast<Condition>(number) : Condition::alive;
  }
  void get(Token& value) {
    const auto bytes = take(value.size());
    std::copy(bytes.begin(), bytes.end(), value.begin());
  }
  void get(std::string& value) {
    std::uint32_t length = 0;
    get(length);
    right_ = right_ && length <= kLongestText;
    const auto bytes = take(length);
    value.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  template <class Element>
  void get(std::vector<Element>& values) {
    std::uint32_t count = 0;
    get(count);
    // Each element takes at least a byte for each of its own: a length cannot make us reserve what did not come.
    right_ = right_ && count <= in_.size();
    if (!right_) return;
    values.reserve(std::min<std::size_t>(count, in_.size() / 4));
    for (std::uint32_t i = 0; right_ && i < count; ++i) get(values.emplace_back());
  }
  void get(Runs& value) {
    std::uint32_t runs = 0;
    get(runs);
    for (std::uint32_t i = 0; right_ && i < runs; ++i) {
      Rank first = 0;
      std::uint32_t count = 0;
      get(first);
      get(count);
      auto& ranks = value.ranks;
      const bool follows = !ranks.empty() && std::int64_t{first} == std::int64_t{ranks.back()} + 1;
      const bool ranks_exist = std::int64_t{first} + count - 1 <= std::numeric_limits<Rank>::max();
      right_ = right_ && count > 0 && !follows && ranks_exist && count <= kMostListed - ranks.size();
      if (!right_) return;
      if (count > ranks.size()) ranks.reserve(ranks.size() + count);
      for (std::uint32_t k = 0; k < count; ++k) ranks.push_back(first + static_cast<Rank>(k));
    }
  }
  void get(Standing& value) { fields(*this, value); }
  void get(Agreement& value) { fields(*this, value); }

  std::span<const std::byte> in_;
  bool right_ = true;
};

template <std::size_t kind>
std::optional<Message> decode_as(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  std::variant_alternative_t<kind, Message> value;
  fields(reader, value);
  if (!reader.all_right()) return std::nullopt;
  return Message(std::move(value));
}

template <std::size_t... kinds>
std::optional<Message> decode_one_of(std::size_t kind, std::span<const std::byte> bytes,
                                     std::index_sequence<kinds...> /*all*/) {
  std::optional<Message> message;
  static_cast<void>(((kind == kinds && (message = decode_as<kinds>(bytes), true)) || ...));
  return message;
}

}  // namespace

std::vector<std::byte> encode(const Message& message) {
  std::vector<std::byte> bytes;
  bytes.reserve(64);
  bytes.push_back(static_cast<std::byte>(message.index()));
  Writer writer(bytes);
  std::visit([&](auto value) { fields(writer, value); }, message);
  return bytes;
}

std::optional<Message> decode(std::span<const std::byte> bytes) {
  if (bytes.empty() || bytes.size() > kLongestMessage) return std::nullopt;
  return decode_one_of(std::to_integer<std::size_t>(bytes[0]), bytes.subspan(1),
                       std::make_index_sequence<std::variant_size_v<Message>>());
}

}  // namespace kolo::cluster
