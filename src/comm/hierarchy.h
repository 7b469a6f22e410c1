#pragma once
// What the operations of one hierarchical communicator share: who is where, and the two communicators that they are
// made of.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/machine.h"
#include "collectives/reduction.h"
#include "comm/make.h"
#include "comm/private_buffer.h"
#include "comm/shared_buffer.h"

namespace kolo::comm {

// Externally synchronized, as its communicator is; shared with operations, which may be abandoned and then outlive
// that.
//
//   host 0: ranks 0 1 2      lanes = 2, the smallest number of ranks on a host
//   host 1: ranks 3 4        lane 0: ranks 0 3      lane 1: ranks 1 4      rank 2 is in no lane
class Hierarchy {
 public:
  explicit Hierarchy(const HierarchicalParts& parts);

  // Makes what private data passes through, once: collective over this host's ranks, and waits for them.
  void prepare(std::chrono::milliseconds timeout);

  [[nodiscard]] std::size_t hosts() const noexcept { return hosts_.size(); }
  // The ranks of a host, in the order of their local ranks.
  [[nodiscard]] const std::vector<Rank>& ranks_of(std::size_t host) const { return hosts_[host]; }
  [[nodiscard]] std::size_t host_of(Rank rank) const { return places_[static_cast<std::size_t>(rank)].host; }
  [[nodiscard]] std::size_t local_of(Rank rank) const { return places_[static_cast<std::size_t>(rank)].local; }
  [[nodiscard]] std::size_t host() const noexcept { return host_; }    // this rank's
  [[nodiscard]] std::size_t local() const noexcept { return local_; }  // this rank's place on it
  [[nodiscard]] const std::vector<Rank>& neighbours() const { return hosts_[host_]; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(places_.size()); }
  [[nodiscard]] std::size_t lanes() const noexcept { return lanes_; }
  [[nodiscard]] bool in_a_lane() const noexcept { return local_ < lanes_; }
  // What a lane moves of `count` elements; empty where there is no such lane. Begins on a multiple of `grain`.
  [[nodiscard]] collectives::Range part_of_lane(std::size_t count, std::size_t lane, std::size_t grain) const {
    if (lane >= lanes_) return {};
    return collectives::part_of(count, static_cast<int>(lanes_), static_cast<int>(lane), grain);
  }

  [[nodiscard]] Communicator& inside() { return *inside_; }  // the ranks of this host, by local rank
  [[nodiscard]] Communicator& across() { return *across_; }  // this rank's lane, by host. REQUIRES: in_a_lane()
  [[nodiscard]] transport::SharedMemory& memory() { return *memory_; }
  // Small registered buffers of the host, for private data to pass through. REQUIRES: prepare().
  [[nodiscard]] std::span<const std::unique_ptr<RegisteredBuffer>> stages() const noexcept { return stages_; }
  [[nodiscard]] const std::shared_ptr<collectives::Group>& group() const noexcept { return group_; }
  [[nodiscard]] collectives::TurnQueue& turns() noexcept { return turns_; }

  // Work space that is kept for later operations.
  [[nodiscard]] std::unique_ptr<PrivateBuffer> take_scratch(std::size_t bytes);
  void give_back(std::unique_ptr<PrivateBuffer> scratch) { scratch_.push_back(std::move(scratch)); }
  // That of an abandoned operation: never used again.
  void keep(std::unique_ptr<PrivateBuffer> scratch) { kept_.push_back(std::move(scratch)); }

  // Ranks of inside() and of across() as ranks of the group.
  [[nodiscard]] std::vector<Rank> named_inside(std::span<const Rank> local_ranks) const;
  [[nodiscard]] std::vector<Rank> named_across(std::span<const Rank> hosts) const;

 private:
  struct Place {
    std::size_t host = 0;
    std::size_t local = 0;
  };

  std::vector<std::vector<Rank>> hosts_;
  std::vector<Place> places_;  // by rank
  std::size_t host_ = 0;
  std::size_t local_ = 0;
  std::size_t lanes_ = 0;
  std::shared_ptr<collectives::Group> group_ = std::make_shared<collectives::Group>();
  collectives::TurnQueue turns_;
  std::unique_ptr<transport::SharedMemory> own_memory_;  // where this rank is the only one on its host
  transport::SharedMemory* memory_ = nullptr;
  std::unique_ptr<transport::Transport> inside_transport_;
  std::unique_ptr<transport::Transport> across_transport_;  // null where in no lane
  std::unique_ptr<Communicator> inside_;
  std::unique_ptr<Communicator> across_;
  std::vector<std::unique_ptr<RegisteredBuffer>> stages_;
  std::vector<std::unique_ptr<PrivateBuffer>> scratch_;
  std::vector<std::unique_ptr<PrivateBuffer>> kept_;
};

using HierarchyPtr = std::shared_ptr<Hierarchy>;

// How contributions are combined before the last step, which divides: an average is a sum until then, in 64 bits for
// shorter integers, and of booleans it is AND.
[[nodiscard]] collectives::Reduction partial_reduction(DType dtype, ReduceOp op);

// One file each. All of one communicator take turns, in the order of their start.
[[nodiscard]] std::unique_ptr<Operation> start_hierarchical_allreduce(const HierarchyPtr& hierarchy,
                                                                      const AllreduceOptions& options);
// How its slices cross, in words. REQUIRES: hierarchy.in_a_lane().
[[nodiscard]] std::string explain_across(Hierarchy& hierarchy, const AllreduceOptions& options);
[[nodiscard]] std::unique_ptr<Operation> start_hierarchical_broadcast(const HierarchyPtr& hierarchy,
                                                                      const BroadcastOptions& options);
[[nodiscard]] std::unique_ptr<Operation> start_hierarchical_allgather(const HierarchyPtr& hierarchy,
                                                                      const AllgatherOptions& options);
[[nodiscard]] std::unique_ptr<Operation> start_hierarchical_reduce_scatter(const HierarchyPtr& hierarchy,
                                                                           const ReduceScatterOptions& options);
[[nodiscard]] std::unique_ptr<Operation> start_hierarchical_barrier(const HierarchyPtr& hierarchy);

}  // namespace kolo::comm
