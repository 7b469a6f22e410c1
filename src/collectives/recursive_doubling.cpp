// Recursive doubling for small messages (Thakur, Rabenseifner and Gropp, "Optimization of collective communication
// operations in MPICH", IJHPCA 2005): in round k a rank exchanges everything it knows with the rank at distance 2^k,
// and both compute the same.
//
//   round 0   0 <--> 1   2 <--> 3      01 01 23 23 are known
//   round 1   0 <--> 2   1 <--> 3      0123 everywhere
//
// p = 2^k + s: the s surplus ranks hand theirs to a neighbour first, and get the result from it in the end.
//
//   p = 6     0 --> 1   2 --> 3        fold: 1 knows 01, 3 knows 23; on with 1 3 4 5
//             1 <--> 3  4 <--> 5
//             1 <--> 4  3 <--> 5
//             0 <-- 1   2 <-- 3        unfold
//
// Cost: floor(log2 p) (alpha + N beta + N gamma), and 2 (alpha + N beta) + N gamma more unless p is a power of two. N
// includes 8 bytes a flag word.
//
// Flags and data are one message, worked on in memory of our own:  | flag words | elements |
// so a veto costs no round of its own; the caller's data is written when everything is known, or never. Partial results
// are those of neighbouring ranks in rank order, lower ones first on both sides, so all ranks compute the same bits;
// each divides and postscales for itself. 16-bit types are rounded in every round.
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/expected_message.h"
#include "collectives/network.h"
#include "collectives/reduction.h"
#include "collectives/widen.h"
#include "kernels/scale_copy.h"

namespace kolo::collectives {
namespace {

constexpr Rank kNobody = -1;

struct Round {
  Rank to = kNobody;
  Rank from = kNobody;
  bool last = false;  // what is combined here is the result
};

// What `rank` of `size` does. A surplus rank has one round and does not combine what it receives: it is the result.
std::vector<Round> rounds_of(Rank rank, int size, bool& surplus) {
  const int full = static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
  const int pairs = size - full;  // ranks 0 ... 2 pairs - 1 fold, the even ones are surplus
  const bool folds = rank < 2 * pairs;
  surplus = folds && rank % 2 == 0;
  if (surplus) return {{rank + 1, rank + 1}};
  std::vector<Round> rounds;
  if (folds) rounds.push_back({kNobody, rank - 1});
  const int position = folds ? rank / 2 : rank - pairs;
  for (int distance = 1; distance < full; distance *= 2) {
    const int other = position ^ distance;
    const Rank partner = other < pairs ? 2 * other + 1 : other + pairs;
    rounds.push_back({partner, partner, 2 * distance == full});
  }
  if (folds) rounds.push_back({rank - 1, kNobody});
  return rounds;
}

class RecursiveDoubling final : public Machine {
 public:
  RecursiveDoubling(const NetworkParts& parts, const AllreduceOptions& options)
      : Machine(parts.group),
        transport_(*parts.group->transport),
        tag_(parts.tag),
        options_(options),
        reduction_(reduction_of(options)),
        wide_(needs_wide_sums(options.dtype, options.op)),
        flag_bytes_(options.flags.words.size_bytes()) {
    if (wide_) reduction_.dtype = DType::i64;
    bytes_ = flag_bytes_ + options.count * size_of(reduction_.dtype);
    if (bytes_ == 0) return;
    rounds_ = rounds_of(transport_.rank(), transport_.size(), surplus_);
    stride_ = whole_lines(bytes_);
    memory_ = std::make_unique_for_overwrite<std::uint64_t[]>(3 * stride_ / sizeof(std::uint64_t));
    fill(message(current_));
  }

  [[nodiscard]] std::vector<Rank> waiting_for() const override {
    if (receive_ != nullptr) return {rounds_[round_].from};
    std::vector<Rank> unsent;
    for (std::size_t i = 0; i < sends_.size(); ++i) {
      if (sends_[i] != nullptr) unsent.push_back(sent_to_[i]);
    }
    return unsent;
  }

 private:
  static constexpr std::size_t kReceived = 2;

  // Memory for three messages: two that take turns in being sent and being written, and kReceived.
  [[nodiscard]] std::byte* message(std::size_t index) {
    return reinterpret_cast<std::byte*>(memory_.get()) + index * stride_;
  }

  void fill(std::byte* to) {
    if (flag_bytes_ != 0) std::memcpy(to, options_.flags.words.data(), flag_bytes_);
    if (options_.count == 0) return;
    std::byte* elements = to + flag_bytes_;
    if (wide_) {
      widen(options_.data, options_.dtype, options_.count, reinterpret_cast<std::int64_t*>(elements));
    } else {
      kernels::scale_copy(options_.data, options_.dtype, elements, options_.dtype, options_.count, options_.prescale);
    }
  }

  bool step() override {
    for (; round_ < rounds_.size(); ++round_, begun_ = false) {
      const Round& now = rounds_[round_];
      if (!begun_) begin(now);
      if (now.from == kNobody) continue;
      if (receive_ != nullptr && !has_come(*receive_, bytes_, now.from)) return false;
      receive_.reset();
      if (surplus_) continue;
      if (!sent(1 - current_)) return false;
      combine_with_received(now);
    }
    if (!delivered_ && bytes_ != 0) deliver(message(surplus_ ? kReceived : current_));
    const bool first = sent(0);
    return sent(1) && first;
  }

  void begin(const Round& now) {
    begun_ = true;
    if (now.to != kNobody) {  // first: the partner waits for it
      sent_to_[current_] = now.to;
      sends_[current_] = transport_.send(now.to, tag_, {message(current_), bytes_});
    }
    if (now.from != kNobody) receive_ = transport_.receive(now.from, tag_, {message(kReceived), bytes_});
  }

  bool sent(std::size_t index) {
    if (sends_[index] != nullptr && sends_[index]->test()) sends_[index].reset();
    return sends_[index] == nullptr;
  }

  // Into the message that is not being sent. The lower ranks' part comes first, here and at the partner.
  void combine_with_received(const Round& now) {
    const std::byte* lower = message(kReceived);
    const std::byte* higher = message(current_);
    if (now.from > transport_.rank()) std::swap(lower, higher);
    std::byte* into = message(1 - current_);
    std::byte* const elements = into + flag_bytes_;
    for (std::size_t at = 0; at < flag_bytes_; at += sizeof(std::uint64_t)) {
      std::uint64_t words[2];
      std::memcpy(&words[0], lower + at, sizeof(std::uint64_t));
      std::memcpy(&words[1], higher + at, sizeof(std::uint64_t));
      words[0] |= words[1];
      std::memcpy(into + at, &words[0], sizeof(std::uint64_t));
    }
    const std::byte* const partials[] = {lower + flag_bytes_, higher + flag_bytes_};
    combine(reduction_, partials, {&elements, 1}, options_.count, {now.last, transport_.size()});
    current_ = 1 - current_;
  }

  void deliver(const std::byte* result) {
    delivered_ = true;
    const FlagWords& flags = options_.flags;
    if (flag_bytes_ != 0) {
      std::memcpy(flags.words.data(), result, flag_bytes_);
      if (flags.vetoed()) return;
    }
    if (options_.count == 0) return;
    if (wide_) {
      narrow(reinterpret_cast<const std::int64_t*>(result + flag_bytes_), options_.dtype, options_.count,
             options_.data);
    } else {
      std::memcpy(options_.data, result + flag_bytes_, bytes_ - flag_bytes_);
    }
  }

  transport::Transport& transport_;
  transport::Tag tag_;
  AllreduceOptions options_;
  Reduction reduction_;
  bool wide_;
  std::size_t flag_bytes_;
  std::size_t bytes_ = 0;   // of a message
  std::size_t stride_ = 0;  // from one message's memory to the next
  std::vector<Round> rounds_;
  bool surplus_ = false;
  std::unique_ptr<std::uint64_t[]> memory_;
  std::size_t current_ = 0;  // the message that holds what this rank knows
  std::size_t round_ = 0;
  bool begun_ = false;  // this round's transfers are posted
  bool delivered_ = false;
  std::array<Rank, 2> sent_to_{};
  std::array<std::unique_ptr<transport::Transfer>, 2> sends_;  // of messages 0 and 1; these go before their memory
  std::unique_ptr<transport::Transfer> receive_;
};

}  // namespace

std::unique_ptr<Operation> start_recursive_doubling_allreduce(const NetworkParts& parts,
                                                              const AllreduceOptions& options) {
  return std::make_unique<RecursiveDoubling>(parts, options);
}

}  // namespace kolo::collectives
