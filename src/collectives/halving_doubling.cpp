// Halving and doubling for any number of ranks (Traeff, "Optimal, non-pipelined reduce-scatter and allreduce
// algorithms", arXiv:2410.14234, 2024; for powers of two it moves what Rabenseifner's recursive halving moves,
// "Optimization of collective reduction operations", ICCS 2004).
//
// Data is cut into one block per rank. Rank r counts blocks from its own on: its block i is block r+i (mod p). The
// ranks still apart are halved, rounding up: p = s0, s1 = ceil(s0/2), ..., 1. In the round from s' to s, rank r sends
// its blocks s ... s'-1 to rank r+s, for whom they are blocks 0 ... s'-s-1, and adds to those of its own what comes
// from rank r-s. In the end its block 0 is the sum over all ranks. The same rounds backwards, with sender and receiver
// exchanged, hand the sums round.
//
//   p = 4     blocks of the receiver that move, as sums over the ranks named:
//   4 -> 2    0 --2,3--> 2   1 --3,0--> 3   2 --0,1--> 0   3 --1,2--> 1     now rank 0 has blocks 0, 1 over ranks 0 2
//   2 -> 1    0 --1----> 1   1 --2----> 2   2 --3----> 3   3 --0----> 0     now rank r has block r over all
//   1 -> 2    0 --0----> 3   1 --1----> 0   2 --2----> 1   3 --3----> 2     allgather
//   2 -> 4    0 --0,1--> 2   1 --1,2--> 3   2 --2,3--> 0   3 --3,0--> 1
//
//   p = 5     5 -> 3 -> 2 -> 1: rank r sends 2 blocks to r+3, 1 to r+2, 1 to r+1
//
// Cost: 2 ceil(log2 p) alpha + 2 (p-1)/p N beta + (p-1)/p N gamma. No power of two is needed and nothing is folded: the
// bytes of the ring, in a logarithmic number of rounds.
//
// Rounds follow each other without a gap, in segments, several in flight. A halving sends its blocks from the last
// down: what the next round sends first is what this one receives first. A doubling sends them from the first up, which
// are those that have been there longest. So a segment leaves when its own elements have come, and a rank always sends
// and receives at once: both directions of its link are busy. The owner of a block computes the final value and
// everybody copies it: equal bits everywhere. 16-bit types are rounded in each round.
#include <algorithm>
#include <vector>

#include "collectives/flagged_allreduce.h"
#include "collectives/segment_stream.h"

namespace kolo::collectives {
namespace {

// Elements as a rank counts them, from its own block on; cut into segments, none of which goes over the end of the data
// (`wrap`), where counting goes on at the data's beginning.
class Stretch {
 public:
  Stretch() = default;
  Stretch(Range whole, std::size_t wrap, std::size_t segment_elements, bool downwards)
      : low_{whole.begin, std::clamp(wrap, whole.begin, whole.end)},
        high_{low_.end, whole.end},
        each_(segment_elements),
        downwards_(downwards) {}

  [[nodiscard]] std::size_t segments() const { return segments_of(low_) + segments_of(high_); }
  // In the order in which they move.
  [[nodiscard]] Range segment(std::size_t index) const {
    std::size_t upwards = downwards_ ? segments() - 1 - index : index;
    const bool low = upwards < segments_of(low_);
    const Range& piece = low ? low_ : high_;
    if (!low) upwards -= segments_of(low_);
    const std::size_t begin = piece.begin + upwards * each_;
    return {begin, std::min(piece.end, begin + each_)};
  }
  // Whether `range` has nothing in common with the segments from `index` on.
  [[nodiscard]] bool is_clear_of(const Range& range, std::size_t index) const {
    if (index == segments()) return true;
    const Range next = segment(index);
    const Range rest = downwards_ ? Range{low_.begin, next.end} : Range{next.begin, high_.end};
    return range.end <= rest.begin || rest.end <= range.begin;
  }

 private:
  [[nodiscard]] std::size_t segments_of(const Range& piece) const { return (piece.size() + each_ - 1) / each_; }
  Range low_;
  Range high_;
  std::size_t each_ = 1;
  bool downwards_ = false;
};

class HalvingDoubling {
 public:
  HalvingDoubling(transport::Transport& transport, const AllreducePlan& plan)
      : plan_(plan),
        rank_(transport.rank()),
        size_(transport.size()),
        element_(size_of(plan.reduction.dtype)),
        out_(transport, rank_, plan.tag),
        in_(transport, rank_, plan.tag) {
    for (int apart = size_; apart > 1; apart = (apart + 1) / 2) apart_.push_back(apart);
    apart_.push_back(1);
    begin_sending();
    begin_receiving();
    // An element is prescaled when it is first sent or added to: in the first round, but for one block of an odd
    // number.
    if (size_ % 2 == 1) {
      const Range middle = block((rank_ + size_ / 2) % size_);
      prescale_in_place(plan_.reduction, plan_.data + middle.begin * element_, middle.size());
    }
  }

  bool advance() {
    for (bool moved = true; moved;) {
      moved = receive();
      moved |= send();
    }
    return in_round_ == rounds() && out_round_ == rounds();
  }

  [[nodiscard]] std::vector<Rank> waiting_for() const {
    if (in_round_ < rounds() && may_receive()) return {in_.from()};
    return out_round_ < rounds() ? std::vector<Rank>{out_.to()} : std::vector<Rank>{};
  }

 private:
  [[nodiscard]] std::size_t halvings() const { return apart_.size() - 1; }
  [[nodiscard]] std::size_t rounds() const { return 2 * halvings(); }
  [[nodiscard]] bool halves(std::size_t round) const { return round < halvings(); }
  [[nodiscard]] Range block(int index) const {
    return part_of(plan_.count, size_, index, line_grain(plan_.reduction.dtype));
  }

  // Ranks apart before a halving and after it; a doubling goes the other way.
  struct Step {
    int from = 0;
    int to = 0;
  };
  [[nodiscard]] Step step(std::size_t round) const {
    const std::size_t halving = halves(round) ? round : rounds() - 1 - round;
    return {apart_[halving], apart_[halving + 1]};
  }
  // Elements from this rank's own block to the end of the data.
  [[nodiscard]] std::size_t to_the_end() const { return plan_.count - block(rank_).begin; }
  // Elements before its block `index`, counted from its own on.
  [[nodiscard]] std::size_t counted(int index) const {
    const int absolute = rank_ + index;
    return absolute < size_ ? block(absolute).begin - block(rank_).begin : to_the_end() + block(absolute - size_).begin;
  }
  // Its blocks [first, last), as they move in that round.
  [[nodiscard]] Stretch blocks(int first, int last, std::size_t round) const {
    const std::size_t segment_elements = std::max<std::size_t>(1, plan_.segment_bytes / element_);
    return {{counted(first), counted(last)}, to_the_end(), segment_elements, halves(round)};
  }
  [[nodiscard]] std::span<std::byte> memory(const Range& range) const {
    const std::size_t begin =
        range.begin < to_the_end() ? block(rank_).begin + range.begin : range.begin - to_the_end();
    return {plan_.data + begin * element_, range.size() * element_};
  }

  void begin_sending() {
    if (out_round_ == rounds()) return;
    const auto [from, to] = step(out_round_);
    out_.restart((rank_ + (halves(out_round_) ? to : size_ - to)) % size_);
    outgoing_ = halves(out_round_) ? blocks(to, from, out_round_) : blocks(0, from - to, out_round_);
  }

  void begin_receiving() {
    if (in_round_ == rounds()) return;
    const auto [from, to] = step(in_round_);
    in_.restart((rank_ + (halves(in_round_) ? size_ - to : to)) % size_);
    incoming_ = halves(in_round_) ? blocks(0, from - to, in_round_) : blocks(to, from, in_round_);
  }

  // A doubling receives into memory that halvings have sent from.
  [[nodiscard]] bool may_receive() const { return halves(in_round_) || !halves(out_round_); }

  bool receive() {
    bool moved = false;
    while (in_round_ < rounds() && may_receive()) {
      for (; in_.has_room() && in_.posted() < incoming_.segments(); moved = true) {
        const std::span<std::byte> into = memory(incoming_.segment(in_.posted()));
        halves(in_round_) ? in_.post_aside(into.size()) : in_.post(into);
      }
      for (; in_.has_come(); in_.take(), moved = true) {
        if (halves(in_round_)) add(memory(incoming_.segment(in_.taken())), in_.oldest());
      }
      if (in_.taken() < incoming_.segments()) break;
      ++in_round_;
      begin_receiving();
      moved = true;
    }
    return moved;
  }

  void add(std::span<std::byte> into, const std::byte* received) {
    const std::size_t count = into.size() / element_;
    std::byte* const own = into.data();
    if (in_round_ == 0) prescale_in_place(plan_.reduction, own, count);
    const std::byte* const partials[] = {received, own};
    combine(plan_.reduction, partials, {&own, 1}, count, {in_round_ + 1 == halvings(), size_});
  }

  bool send() {
    bool moved = false;
    while (out_round_ < rounds()) {
      moved |= out_.reap();
      for (; out_.has_room() && out_.begun() < outgoing_.segments(); moved = true) {
        const Range next = outgoing_.segment(out_.begun());
        if (!has_all_of(next)) break;
        const std::span<std::byte> data = memory(next);
        if (out_round_ == 0) prescale_in_place(plan_.reduction, data.data(), data.size() / element_);
        out_.send(data);
      }
      if (out_.done() < outgoing_.segments()) break;
      ++out_round_;
      begin_sending();
      moved = true;
    }
    return moved;
  }

  // Whether nothing is missing that the rounds before this one bring.
  [[nodiscard]] bool has_all_of(const Range& range) const {
    if (out_round_ <= in_round_) return true;
    return out_round_ == in_round_ + 1 && incoming_.is_clear_of(range, in_.taken());
  }

  AllreducePlan plan_;
  Rank rank_;
  int size_;
  std::size_t element_;
  std::vector<int> apart_;  // p, ceil(p/2), ..., 1
  // Rounds are counted from 0 through all halvings, then all doublings. Sending may be ahead of receiving, or behind.
  std::size_t out_round_ = 0;
  std::size_t in_round_ = 0;
  SegmentSender out_;
  SegmentReceiver in_;
  Stretch outgoing_;
  Stretch incoming_;
};

}  // namespace

std::unique_ptr<Operation> start_halving_doubling_allreduce(const NetworkParts& parts,
                                                            const AllreduceOptions& options) {
  return std::make_unique<FlaggedAllreduce<HalvingDoubling>>(parts, options);
}

}  // namespace kolo::collectives
