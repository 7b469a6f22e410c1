#pragma once
// What monitors say to each other, as values and as bytes.
//
//   frame on a connection:  [ length: 4 bytes ][ kind: 1 byte | fields ]      numbers little-endian, of explicit size
//
// A field is a number, or a list or text behind its length; what is in each message, and in which order, is in
// monitor_messages.cpp. decode() takes any bytes: what it accepts, encode() would have written.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cluster/token.h"
#include "kolo/types.h"

namespace kolo::cluster {

// What is known of a rank. Knowledge only grows: of two opinions the greater one holds.
enum class Condition : std::uint8_t {
  alive,
  unresponsive,  // connected, and silent for longer than Config::monitor_timeout
  unreachable,   // its connection was closed without a goodbye, or none can be made
  out,           // lost, and says itself that it will not go on
  dead,          // its own host says so: the pid descriptor is readable, or nobody listens at its port any more
  left,          // said goodbye; no loss
};

struct Standing {
  Rank rank = 0;
  Condition condition = Condition::alive;
  bool operator==(const Standing&) const = default;
};
using Standings = std::vector<Standing>;  // of ranks that are not alive

// First on every connection, from both ends: the one who calls, then the one who answers.
struct Greeting {
  Token token{};
  Rank from = 0;
  Rank to = 0;
  bool operator==(const Greeting&) const = default;
};

// A sign of life, about once a second.
struct Beat {
  bool operator==(const Beat&) const = default;
};

// The sender ends in order. The last message on a connection.
struct Goodbye {
  bool operator==(const Goodbye&) const = default;
};

// Passed on to all neighbours by whoever learns something from it.
struct News {
  Standings standings;
  bool asks = false;   // to the leader: a list is wanted
  bool doubt = false;  // others may have gone on without the sender, see Membership::doubt()
  bool operator==(const News&) const = default;
};

// What a world has agreed on: which of its ranks go on. Epoch 0 is the world as it began.
struct Agreement {
  std::uint64_t epoch = 0;
  std::vector<Rank> members;  // ascending
  bool operator==(const Agreement&) const = default;
};

// Leader to members: shall these go on?
struct Proposal {
  Agreement proposed;
  Standings standings;
  bool operator==(const Proposal&) const = default;
};

// A member's answer. `accepted` only after the lost ranks that are this member's to end have been seen dead.
struct Vote {
  std::uint64_t epoch = 0;
  bool accepted = false;
  bool doubt = false;         // as in News
  std::uint64_t highest = 0;  // epoch that this rank has voted for
  Agreement agreed;           // the last that this rank knows
  Standings standings;
  bool operator==(const Vote&) const = default;
};

// Leader to members. Without a majority nobody goes on.
struct Verdict {
  Agreement agreed;
  bool majority = false;
  bool operator==(const Verdict&) const = default;
};

// A member stands where the ones that go on begin together; the leader, once all do.
struct Arrival {
  std::uint64_t epoch = 0;
  bool all = false;
  bool operator==(const Arrival&) const = default;
};

// Handed on along the tree, as is its answer.
struct Question {
  Rank from = 0;
  Rank to = 0;
  std::uint64_t number = 0;
  std::string operation;
  bool operator==(const Question&) const = default;
};

struct Reply {
  Rank from = 0;
  Rank to = 0;
  std::uint64_t number = 0;
  bool waits = false;  // for others: it is not the cause
  std::string doing;
  bool operator==(const Reply&) const = default;
};

using Message = std::variant<Greeting, Beat, Goodbye, News, Proposal, Vote, Verdict, Arrival, Question, Reply>;

inline constexpr std::size_t kLongestMessage = std::size_t{1} << 20;  // bytes behind the length
inline constexpr std::size_t kGreetingBytes = 1 + sizeof(Token) + 4 + 4;
inline constexpr std::size_t kLongestText = 4096;                 // longer ones are cut by encode()
inline constexpr std::size_t kMostListed = std::size_t{1} << 17;  // ranks of an Agreement

// Without the frame's length.
[[nodiscard]] std::vector<std::byte> encode(const Message& message);
// Nothing for bytes that are no message. Never throws but for want of memory, of which it takes no more than a small
// multiple of what it was given, and an Agreement's list no more than kMostListed ranks.
[[nodiscard]] std::optional<Message> decode(std::span<const std::byte> bytes);

}  // namespace kolo::cluster
