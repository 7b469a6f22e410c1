// Our algorithms: direct on one host, the others over a Transport. Which and why: select.cpp.
#include <algorithm>
#include <utility>

#include "collectives/direct_allreduce.h"
#include "collectives/lane_operations.h"
#include "collectives/network.h"
#include "collectives/scattering.h"
#include "comm/complete_operation.h"
#include "comm/group_communicator.h"
#include "comm/make.h"
#include "comm/private_buffer.h"
#include "comm/select.h"
#include "comm/self_communicator.h"
#include "comm/shared_buffer.h"
#include "comm/validate.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"

namespace kolo::comm {
namespace {

using namespace collectives;

Surroundings surroundings_of(const AlgorithmicParts& parts) {
  if (parts.transport == nullptr) throw UsageError("an algorithmic communicator needs a transport");
  if (parts.shared_memory != nullptr && (parts.shared_memory->local_size() != parts.transport->size() ||
                                         parts.shared_memory->local_rank() != parts.transport->rank())) {
    throw UsageError("algorithmic communicator: the shared memory must be that of the ranks of the group");
  }
  Surroundings surroundings;
  surroundings.size = parts.transport->size();
  surroundings.shared_memory = parts.shared_memory != nullptr;
  surroundings.hosts = parts.hosts != 0 ? parts.hosts : surroundings.shared_memory ? 1 : surroundings.size;
  surroundings.sharing = parts.sharing;
  surroundings.segment_bytes = parts.ring_segment_bytes;
  return surroundings;
}

std::shared_ptr<Group> group_of(const AlgorithmicParts& parts) {
  auto group = std::make_shared<Group>();
  group->transport = parts.transport;
  group->counters = parts.counters;
  group->calls = parts.calls;
  return group;
}

class AlgorithmicCommunicator final : public GroupCommunicator {
 public:
  AlgorithmicCommunicator(const AlgorithmicParts& parts, const Surroundings& surroundings)
      : GroupCommunicator(group_of(parts), waiting(parts, surroundings)), parts_(parts), chooser_(surroundings) {}

  std::unique_ptr<Operation> start(const AllreduceOptions& options) override {
    require_usable();
    validate(options);
    Way way = chooser_.way(options);
    // Lanes are memory that all ranks make together: not from here, where ranks may be at different points of their
    // lists.
    if (way == Way::lanes && options.registered != nullptr && lanes_ == nullptr) way = Way::in_place;
    switch (way) {
      case Way::alone:
        return allreduce_alone(options);
      case Way::in_place:
        return begun(start_direct_allreduce(group(), direct_buffer_of(options), options));
      case Way::lanes:
        return begun(start_lane_allreduce(group(), lanes(), options));
      case Way::sliced_lanes:
        return begun(start_lane_sliced_allreduce(group(), lanes(), options));
      case Way::ring:
        return begun(start_ring_allreduce(network_parts(), options));
      case Way::tree:
        return begun(start_tree_allreduce(network_parts(), options));
      case Way::halving_doubling:
        return begun(start_halving_doubling_allreduce(network_parts(), options));
      case Way::recursive_doubling:
        return begun(start_recursive_doubling_allreduce(network_parts(), options, chooser_.halvings(options)));
      case Way::hierarchical:
        break;
    }
    throw UsageError("allreduce: this communicator has no algorithm hierarchical");
  }

  [[nodiscard]] bool supports_segmented() const noexcept override { return size() > 1; }

  std::unique_ptr<Operation> start_segmented(const AllreduceOptions& options,
                                             const SegmentedBuffer& scattering) override {
    require_usable();
    if (!supports_segmented()) return Communicator::start_segmented(options, scattering);
    validate(options);
    if (!shared_memory()) {
      if (options.registered == nullptr || scattering.home == nullptr) {
        throw UsageError("segmented allreduce: `registered` and `home` must be registered buffers");
      }
      check_scattering(options, scattering, options.registered->data(), scattering.home->data());
      return begun(start_ring_allreduce(network_parts(), options, scattering));
    }
    const ScatteredBuffers buffers{direct_buffer_of(options), direct_buffer_of(scattering.home)};
    return begun(start_scattered_allreduce(group(), buffers, options, scattering));
  }

  std::unique_ptr<Operation> start(const BroadcastOptions& options) override {
    require_usable();
    validate(options, size());
    if (size() == 1 || options.bytes == 0) return std::make_unique<CompleteOperation>();
    if (shared_memory()) return begun(start_lane_broadcast(group(), lanes(), options));
    return begun(chooser_.spread(options.bytes) == Spread::tree ? start_tree_broadcast(network_parts(), options)
                                                                : start_chain_broadcast(network_parts(), options));
  }

  std::unique_ptr<Operation> start(const AllgatherOptions& options) override {
    require_usable();
    validate(options, size(), rank());
    if (size() == 1) return allgather_alone(options);
    return begun(shared_memory() ? start_lane_allgather(group(), lanes(), options)
                                 : start_ring_allgather(network_parts(), options));
  }

  std::unique_ptr<Operation> start(const ReduceScatterOptions& options) override {
    require_usable();
    validate(options, size(), rank());
    if (size() == 1) return reduce_scatter_alone(options);
    return begun(shared_memory() ? start_lane_reduce_scatter(group(), lanes(), options)
                                 : start_ring_reduce_scatter(network_parts(), options));
  }

  std::unique_ptr<Operation> start_barrier() override {
    require_usable();
    if (size() == 1) return std::make_unique<CompleteOperation>();
    return begun(shared_memory() ? start_lane_barrier(group(), lanes()) : start_dissemination_barrier(network_parts()));
  }

  std::vector<std::unique_ptr<RegisteredBuffer>> allocate(std::span<const std::size_t> sizes,
                                                          std::chrono::milliseconds timeout) override {
    require_usable();
    if (!shared_memory() || size() == 1) return make_private_buffers(sizes);
    group()->begin();
    return allocated([&] {
      if (lanes_ == nullptr) lanes_ = make_lanes(*parts_.shared_memory, timeout);
      return allocate_shared_buffers(*parts_.shared_memory, sizes, timeout);
    });
  }

  [[nodiscard]] Choice explain(const AllreduceOptions& options) const override {
    return chooser_.select(options).choice;
  }

 private:
  // A look at a network costs more than yielding, and whoever is to answer may wait for this core: in shared memory for
  // certain, where there are more ranks than cores.
  static Waiting waiting(const AlgorithmicParts& parts, const Surroundings& surroundings) {
    const bool crowded = surroundings.size > parts.local_cores;
    const int most = !surroundings.shared_memory ? 50 : crowded ? 4 : parts.spin_iterations;
    return {.in_shared_memory = surroundings.shared_memory,
            .far_away = !surroundings.shared_memory,
            .spin_iterations = std::min(most, parts.spin_iterations)};
  }
  [[nodiscard]] bool shared_memory() const noexcept { return chooser_.surroundings().shared_memory; }

  // Messages are told apart by their tags, which come round again: not while the operation lives that had them.
  NetworkParts network_parts() {
    const std::uint64_t most = parts_.tag_count / kTagsPerOperation;
    const auto& pending = group()->pending;
    if (!pending.empty() && group()->started - pending.front()->number() >= most) {
      throw UsageError("an operation that was started " + std::to_string(most) +
                       " operations ago is still in flight. Complete it before you start another one");
    }
    const transport::Tag tag = parts_.first_tag + next_tag_;
    next_tag_ = (next_tag_ + kTagsPerOperation) % parts_.tag_count;
    return {group(), tag, parts_.ring_segment_bytes};
  }

  // Made by allocate(), or when first needed; all ranks come by here in the same order.
  const std::shared_ptr<Lanes>& lanes() {
    if (lanes_ == nullptr) {
      group()->begin();
      const auto limit = std::min(parts_.timeout, start_limit());
      lanes_ = together([&] { return make_lanes(*parts_.shared_memory, limit); });
    }
    return lanes_;
  }

  AlgorithmicParts parts_;
  Chooser chooser_;
  transport::Tag next_tag_ = 0;
  std::shared_ptr<Lanes> lanes_;  // shared with operations, which may be abandoned and then outlive this
};

}  // namespace

std::unique_ptr<Communicator> make_algorithmic(const AlgorithmicParts& parts) {
  return std::make_unique<AlgorithmicCommunicator>(parts, surroundings_of(parts));
}

}  // namespace kolo::comm
