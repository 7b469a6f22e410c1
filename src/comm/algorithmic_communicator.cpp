// Our algorithms: direct on one host, rings over a Transport. Which and why: select.cpp.
#include <algorithm>
#include <thread>
#include <utility>

#include "collectives/direct_allreduce.h"
#include "collectives/lane_operations.h"
#include "collectives/ring.h"
#include "comm/complete_operation.h"
#include "comm/make.h"
#include "comm/private_buffer.h"
#include "comm/select.h"
#include "comm/self_communicator.h"
#include "comm/validate.h"
#include "kolo/error.h"

namespace kolo::comm {
namespace {

using namespace collectives;

class SharedBuffer final : public RegisteredBuffer {
 public:
  // `buffer` is shared with the operations on it, which may be abandoned and then outlive this.
  SharedBuffer(std::shared_ptr<DirectBuffer> buffer, Rank rank) : buffer_(std::move(buffer)), rank_(rank) {}
  [[nodiscard]] std::span<std::byte> data() noexcept override {
    return {buffer_->memory[static_cast<std::size_t>(rank_)], buffer_->bytes};
  }
  [[nodiscard]] const std::shared_ptr<DirectBuffer>& direct() const noexcept { return buffer_; }

 private:
  std::shared_ptr<DirectBuffer> buffer_;
  Rank rank_;
};

std::size_t round_up(std::size_t bytes) { return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine; }

class AlgorithmicCommunicator final : public Communicator {
 public:
  explicit AlgorithmicCommunicator(const AlgorithmicParts& parts) : parts_(parts), group_(std::make_shared<Group>()) {
    if (parts.transport == nullptr) throw UsageError("an algorithmic communicator needs a transport");
    group_->transport = parts.transport;
    group_->counters = parts.counters;
    surroundings_.size = parts.transport->size();
    surroundings_.shared_memory = parts.shared_memory != nullptr;
    if (parts.shared_memory != nullptr && (parts.shared_memory->local_size() != parts.transport->size() ||
                                           parts.shared_memory->local_rank() != parts.transport->rank())) {
      throw UsageError("an algorithmic communicator's shared memory must span exactly its group");
    }
    const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
    const bool crowded = surroundings_.shared_memory && static_cast<unsigned>(size()) > cores;
    spin_iterations_ = crowded ? std::min(parts.spin_iterations, 20) : parts.spin_iterations;
  }

  [[nodiscard]] Rank rank() const noexcept override { return parts_.transport->rank(); }
  [[nodiscard]] int size() const noexcept override { return surroundings_.size; }

  std::unique_ptr<Operation> start(const AllreduceOptions& options) override {
    validate(options);
    Way way = select_way(options, surroundings_);
    // Lanes are memory that all ranks make together: not from here, where ranks may be at different points of their
    // lists.
    if (way == Way::lanes && options.registered != nullptr && lanes_ == nullptr) way = Way::in_place;
    switch (way) {
      case Way::alone:
        return allreduce_alone(options);
      case Way::ring:
        return begun(start_ring_allreduce(ring_parts(), options));
      case Way::lanes:
        return begun(start_lane_allreduce(group_, lanes(), options));
      case Way::sliced_lanes:
        return begun(start_lane_sliced_allreduce(group_, lanes(), options));
      case Way::in_place:
        break;
    }
    const auto* shared = dynamic_cast<const SharedBuffer*>(options.registered);
    if (shared == nullptr) throw UsageError("allreduce: the registered buffer belongs to another communicator");
    return begun(start_direct_allreduce(group_, shared->direct(), options));
  }

  std::unique_ptr<Operation> start(const BroadcastOptions& options) override {
    validate(options, size());
    if (size() == 1 || options.bytes == 0) return std::make_unique<CompleteOperation>();
    return begun(surroundings_.shared_memory ? start_lane_broadcast(group_, lanes(), options)
                                             : start_chain_broadcast(ring_parts(), options));
  }

  std::unique_ptr<Operation> start(const AllgatherOptions& options) override {
    validate(options, size(), rank());
    if (size() == 1) return allgather_alone(options);
    return begun(surroundings_.shared_memory ? start_lane_allgather(group_, lanes(), options)
                                             : start_ring_allgather(ring_parts(), options));
  }

  std::unique_ptr<Operation> start(const ReduceScatterOptions& options) override {
    validate(options, size(), rank());
    if (size() == 1) return reduce_scatter_alone(options);
    return begun(surroundings_.shared_memory ? start_lane_reduce_scatter(group_, lanes(), options)
                                             : start_ring_reduce_scatter(ring_parts(), options));
  }

  std::unique_ptr<Operation> start_barrier() override {
    if (size() == 1) return std::make_unique<CompleteOperation>();
    return begun(surroundings_.shared_memory ? start_lane_barrier(group_, lanes())
                                             : start_dissemination_barrier(ring_parts()));
  }

  // One region: | control 0 | buffer 0 | control 1 | buffer 1 | ... in every rank's slot.
  std::vector<std::unique_ptr<RegisteredBuffer>> allocate(std::span<const std::size_t> sizes,
                                                          std::chrono::milliseconds timeout) override {
    if (!surroundings_.shared_memory || size() == 1) return make_private_buffers(sizes);
    if (lanes_ == nullptr) lanes_ = make_lanes(*parts_.shared_memory, timeout);
    std::size_t total = 0;
    for (const std::size_t bytes : sizes) total += sizeof(DirectControl) + round_up(bytes);
    std::vector<std::unique_ptr<RegisteredBuffer>> buffers;
    if (sizes.empty()) return buffers;
    // Shared: the mapping lives until the last of its buffers, and of the operations on them, is gone.
    const std::shared_ptr<transport::SharedRegion> region = parts_.shared_memory->allocate(total, timeout);
    std::size_t offset = 0;
    for (const std::size_t bytes : sizes) {
      auto buffer = std::make_shared<DirectBuffer>();
      buffer->region = region;
      buffer->bytes = bytes;
      for (const std::span<std::byte> slot : region->slots()) {
        buffer->control.push_back(reinterpret_cast<DirectControl*>(slot.data() + offset));
        buffer->memory.push_back(slot.data() + offset + sizeof(DirectControl));
      }
      buffers.push_back(std::make_unique<SharedBuffer>(std::move(buffer), rank()));
      offset += sizeof(DirectControl) + round_up(bytes);
    }
    return buffers;
  }

  [[nodiscard]] Choice explain(const AllreduceOptions& options) const override {
    return select(options, surroundings_).choice;
  }

  // Shared memory rings no bell: while something waits there, sleep only shortly.
  void wait_for_activity(std::chrono::microseconds at_most) override {
    constexpr std::chrono::microseconds kNap{100};
    parts_.transport->wait_for_activity(surroundings_.shared_memory ? std::min(at_most, kNap) : at_most);
  }
  [[nodiscard]] bool moved() noexcept override { return std::exchange(group_->moved, false); }

 protected:
  void progress() override {
    if (group_->pending.size() > 1) group_->advance_all();
  }
  [[nodiscard]] int spin_iterations() const noexcept override { return spin_iterations_; }

 private:
  // Lets a new operation show its data at once. An error is kept by the operation and comes back from its advance().
  std::unique_ptr<Operation> begun(std::unique_ptr<Operation> operation) {
    try {
      operation->advance();
    } catch (const Error&) {
    }
    return operation;
  }

  RingParts ring_parts() {
    const transport::Tag tag = parts_.first_tag + next_tag_;
    next_tag_ = (next_tag_ + 1) % parts_.tag_count;
    return {group_, tag, parts_.ring_segment_bytes};
  }

  // Made by allocate(), or when first needed; all ranks come by here in the same order.
  const std::shared_ptr<Lanes>& lanes() {
    if (lanes_ == nullptr) lanes_ = make_lanes(*parts_.shared_memory, parts_.timeout);
    return lanes_;
  }

  AlgorithmicParts parts_;
  std::shared_ptr<Group> group_;
  Surroundings surroundings_;
  int spin_iterations_ = 0;
  transport::Tag next_tag_ = 0;
  std::shared_ptr<Lanes> lanes_;  // shared with operations, which may be abandoned and then outlive this
};

}  // namespace

std::unique_ptr<Communicator> make_algorithmic(const AlgorithmicParts& parts) {
  return std::make_unique<AlgorithmicCommunicator>(parts);
}

}  // namespace kolo::comm
