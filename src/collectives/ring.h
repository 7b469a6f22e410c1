#pragma once
// Rings over a Transport. See ring.cpp for the schedule.
#include <cstddef>
#include <memory>
#include <vector>

#include "collectives/machine.h"
#include "collectives/reduction.h"
#include "collectives/scattering.h"
#include "transport/transport.h"

namespace kolo::collectives {

// The segmented ring itself, without flags: a piece of other operations. Works in place on `data`, which is cut into
// one block per rank. Its memory must outlive it.
class Ring {
 public:
  enum class Part { reduce_scatter, allgather, allreduce };
  struct Plan {
    Part part = Part::allreduce;
    std::byte* data = nullptr;
    SegmentedBuffer scattering{};     // where it lies apart; without pieces all lies at `data`
    std::vector<std::size_t> blocks;  // elements of each rank's block
    Reduction reduction;
    std::size_t segment_bytes = 60 * 1024;
  };

  Ring(transport::Transport& transport, transport::Tag tag, Plan plan);
  // Without waiting; true once complete.
  bool advance();
  // Nothing is on its way.
  [[nodiscard]] bool complete() const noexcept { return received_ == items_ && sent_ == items_; }
  [[nodiscard]] std::vector<Rank> waiting_for() const;

 private:
  static constexpr std::size_t kWindow = 4;  // segments in flight each way

  // Segment `segment` of the block that step `step` moves.
  struct Item {
    std::size_t step;
    std::size_t segment;
  };
  // Null: an empty segment, nothing to move.
  using Flight = std::unique_ptr<transport::Transfer>;

  [[nodiscard]] Item item(std::size_t index) const { return {first_step_ + index / segments_, index % segments_}; }
  [[nodiscard]] std::size_t block_sent(std::size_t step) const;
  [[nodiscard]] std::size_t block_received(std::size_t step) const;
  void cut();
  // Empty: the block has fewer.
  [[nodiscard]] Run segment(std::size_t block, std::size_t index) const;
  [[nodiscard]] bool reduces(std::size_t step) const { return step + 1 < static_cast<std::size_t>(size_); }
  [[nodiscard]] bool may_receive(std::size_t index) const;
  bool post_receives();
  bool take_received();
  void combine(std::size_t slot, const Run& own, bool last);
  bool post_sends();
  bool reap_sends();

  transport::Transport& transport_;
  transport::Tag tag_;
  Plan plan_;
  int size_;
  std::size_t element_;
  std::vector<Run> cut_;            // all blocks' segments
  std::vector<std::size_t> first_;  // of each block in cut_, and the end
  std::size_t segments_ = 0;        // of the block that has the most
  std::size_t first_step_ = 0;
  std::size_t items_ = 0;
  std::size_t posted_ = 0;                                 // receives posted
  std::size_t received_ = 0;                               // receives completed, and combined with this rank's part
  std::size_t sending_ = 0;                                // sends posted
  std::size_t sent_ = 0;                                   // sends completed
  std::vector<std::vector<std::byte>> incoming_{kWindow};  // segments that are received to be combined
  std::vector<Flight> receives_{kWindow};                  // destroyed before the memory that they write to
  std::vector<Flight> sends_{kWindow};
};

}  // namespace kolo::collectives
