// Direct allreduce: the ranks of one host on memory that all of them have mapped, in place.
//
// Every rank reduces its 1/p slice from all buffers and writes the result into all buffers (push: writing into a peer's
// memory is cheaper than reading what a peer has just written). 2N bytes of memory traffic per rank, the floor for
// private results: every input is read once, every output written once. It is the two-shot or "reduce-scatter and
// allgather" scheme of GPU libraries with direct links; see also Jain et al., "Framework for scalable intra-node
// collective operations using shared memory", SC 2018.
//
//            slice 0   slice 1   slice 2   slice 3
//   buffer 0 [  a0  ]  [  b0  ]  [  c0  ]  [  d0  ]
//   buffer 1 [  a1  ]  [  b1  ]  [  c1  ]  [  d1  ]      rank 0 reads column a of all buffers in rank order, and
//   buffer 2 [  a2  ]  [  b2  ]  [  c2  ]  [  d2  ]      writes a0+a1+a2+a3 into column a of all buffers; rank 1
//   buffer 3 [  a3  ]  [  b3  ]  [  c3  ]  [  d3  ]      does column b, and so on
//
//   publish   flags, then arrived = s (release)
//   arrive    until all arrived >= s (acquire); OR of all flags; veto: no reduction
//   reduce    own slice, a quantum at a time; streaming stores are fenced by the kernel
//   done      done = s (release); until all done >= s
//
// Each element is computed once, by one rank, from all inputs in rank order: equal bits everywhere, 16-bit types
// rounded once. The flags of operation s may be overwritten by s+1: whoever is done with s has read them.
#include "collectives/direct_allreduce.h"

#include <algorithm>

#include "collectives/direct_meeting.h"

namespace kolo::collectives {
namespace {

class DirectAllreduce final : public QueuedMachine {
 public:
  DirectAllreduce(std::shared_ptr<Group> group, const std::shared_ptr<DirectBuffer>& buffer,
                  const AllreduceOptions& options, const DirectTuning& tuning)
      : QueuedMachine(std::move(group), buffer, buffer->queue),
        buffer_(*buffer),
        options_(options),
        rank_(this->group().rank()),
        meeting_(*buffer, rank_),
        size_(static_cast<std::size_t>(this->group().size())),
        element_(size_of(options.dtype)),
        slice_(part_of(options.count, static_cast<int>(size_), rank_, line_grain(options.dtype))),
        piece_(std::max(line_grain(options.dtype), tuning.quantum / element_)),
        stores_(tuning.stores(options.count * element_, size_, rank_)) {}

  [[nodiscard]] std::vector<Rank> waiting_for() const override {
    return phase_ == Phase::arrive || phase_ == Phase::done ? meeting_.missing() : std::vector<Rank>{};
  }

 private:
  enum class Phase { publish, arrive, reduce, done };

  bool turn() override {
    if (phase_ == Phase::publish) {
      meeting_.arrive(options_.flags.words);
      phase_ = Phase::arrive;
    }
    if (phase_ == Phase::arrive) {
      if (!meeting_.all_arrived()) return false;
      enter_reduction();
    }
    if (phase_ == Phase::reduce && !reduce_piece()) return false;
    return phase_ == Phase::done && meeting_.all_done();
  }

  void enter_reduction() {
    meeting_.combine(options_.flags.words);
    next_ = options_.flags.vetoed() ? slice_.end : slice_.begin;
    phase_ = Phase::reduce;
  }

  // True once the slice is reduced, and that is published.
  bool reduce_piece() {
    if (next_ < slice_.end) {
      const std::size_t count = std::min(piece_, slice_.end - next_);
      const auto outputs = buffer_.columns_at(static_cast<std::size_t>(rank_), options_.data, next_ * element_);
      const std::span<const std::byte* const> inputs(outputs.data(), outputs.size());
      reduction_of(options_).run(inputs, outputs, count, stores_);
      if (group().counters != nullptr) group().counters->bytes_reduced_shared.add(count * element_);
      next_ += count;
      group().moved = true;
      if (next_ < slice_.end) return false;
    }
    phase_ = Phase::done;
    meeting_.depart();
    return true;
  }

  DirectBuffer& buffer_;
  AllreduceOptions options_;
  Rank rank_;
  DirectMeeting meeting_;
  std::size_t size_;
  std::size_t element_;
  Range slice_;
  std::size_t piece_;  // elements
  Reduction::Stores stores_;
  Phase phase_ = Phase::publish;
  std::size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Operation> start_direct_allreduce(std::shared_ptr<Group> group,
                                                  const std::shared_ptr<DirectBuffer>& buffer,
                                                  const AllreduceOptions& options, const DirectTuning& tuning) {
  return std::make_unique<DirectAllreduce>(std::move(group), buffer, options, tuning);
}

}  // namespace kolo::collectives
