#pragma once
// What ranks tell each other, as values. codec.h turns them into bytes; nothing else knows protozero.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kolo/error.h"
#include "kolo/spi/engine.h"
#include "kolo/types.h"

namespace kolo::engine {

// A request's kind on the wire: the public kinds, and a gradient round.
enum class Kind : std::uint8_t { allreduce, broadcast, allgather, barrier, gradient_round };

// Everything about a request that must agree on all ranks.
struct Signature {
  Kind kind = Kind::allreduce;
  DType dtype = DType::f32;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  ReduceOp op = ReduceOp::sum;
  double prescale = 1.0;
  double postscale = 1.0;
  Rank root = 0;
  std::string table;

  bool operator==(const Signature&) const = default;
};

struct Conflict {
  Signature first;
  Rank first_rank = 0;
  Signature second;
  Rank second_rank = 0;
};

// What a rank, or a whole subtree, has submitted under one name.
struct Entry {
  std::string name;
  Signature signature;
  Rank rank = 0;
  std::optional<Conflict> conflict;
  std::vector<Rank> ranks;           // allgather: who contributes ...
  std::vector<std::uint64_t> bytes;  // ... how much
  std::vector<std::uint32_t> order;  // gradient round: observed order on the lowest rank
  // Gradient round: ranks whose training code threw. Else: ranks that refuse their request. Why, on the first of them.
  std::vector<Rank> failed_ranks;
  std::string failure;
  std::vector<std::uint32_t> beside;  // gradient round: other reducers, by id: RoundHost::open_beside() of any rank
};

// One operation that all ranks execute next, or the reason why not.
struct Item {
  std::vector<std::string> names;
  std::optional<Conflict> conflict;
  std::vector<std::uint64_t> bytes;
  std::vector<std::uint32_t> order;
  std::vector<Rank> failed_ranks;
  std::string failure;
  std::vector<std::uint32_t> beside;
  std::uint64_t sequence = 0;
};

enum class FatalKind : std::uint8_t { peer_left, peer_lost, timeout, failed, backend };

struct FailedRound {
  std::uint64_t reducer = 0;
  std::uint64_t round = 0;

  bool operator==(const FailedRound&) const = default;
};

// An end that concerns everybody: `failed` ends what is pending, the others end the group.
struct Fatal {
  FatalKind kind = FatalKind::backend;
  std::vector<Rank> ranks;
  std::string text;
  // peer_left: what the rank still took part in - items below `sequence`, and that many rounds of each reducer.
  std::uint64_t sequence = 0;
  std::vector<std::uint64_t> rounds = {};
  // Both: how many collectives that are called directly the rank has come to, and how many reducers it has made.
  std::uint64_t calls = 0;
  std::uint64_t reducers = 0;
  // failed: the epochs of failures that its program had not been told of when it failed itself, at the same place; the
  // last epoch that it had heard of then.
  std::vector<std::uint64_t> answered = {};
  std::uint64_t heard = 0;
  std::optional<FailedRound> failed_round = {};  // failed: what ends with it
  bool after_failure = false;                    // peer_left: because its training code failed, and `text` says how

  bool operator==(const Fatal&) const = default;
};

// The control channel failed, or the device of this rank refused a bucket. No other rank knows of it, so it ends the
// group instead of one operation.
class GroupFailure : public BackendError {
 public:
  using BackendError::BackendError;
};

// Up: which ranks of the sender's subtree have not submitted `name`.
struct Report {
  std::string name;
  std::vector<Rank> missing;
  bool cancel = false;     // a deadline has passed: withdraw it, unless it is listed
  bool held_back = false;  // with cancel: a rank on the way has not passed the submission on yet
};

// Down, in sequence with the items: nobody waits for `name` any more.
struct Withdrawal {
  std::string name;
  std::vector<Rank> missing;
};

struct Envelope {
  std::uint64_t epoch = 0;
  std::vector<Entry> entries;
  std::vector<Item> items;
  std::optional<Fatal> fatal;
  std::optional<Fatal> failure;
  std::vector<Report> reports;
  std::optional<Withdrawal> withdrawal;
  std::uint32_t depth = 0;
};

}  // namespace kolo::engine
