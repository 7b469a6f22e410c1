#include "comm/hierarchy.h"

#include <algorithm>
#include <string>

#include "collectives/widen.h"
#include "kolo/error.h"
#include "transport/make.h"
#include "transport/subset.h"

namespace kolo::comm {
namespace {

// Two of them, so that one is filled while the other is on its way.
constexpr std::size_t kStageBytes = std::size_t{1} << 20;

}  // namespace

collectives::Reduction partial_reduction(DType dtype, ReduceOp op) {
  collectives::Reduction reduction{collectives::needs_wide_sums(dtype, op) ? DType::i64 : dtype, op};
  if (op == ReduceOp::average) reduction.op = dtype == DType::boolean ? ReduceOp::min : ReduceOp::sum;
  return reduction;
}

Hierarchy::Hierarchy(const HierarchicalParts& parts) : hosts_(parts.hosts) {
  if (parts.whole.transport == nullptr) throw UsageError("a hierarchical communicator needs a transport");
  places_.resize(static_cast<std::size_t>(parts.whole.transport->size()));
  lanes_ = places_.size();
  std::size_t named = 0;
  for (std::size_t h = 0; h < hosts_.size(); ++h) {
    lanes_ = std::min(lanes_, hosts_[h].size());
    for (std::size_t i = 0; i < hosts_[h].size(); ++i, ++named) {
      places_.at(static_cast<std::size_t>(hosts_[h][i])) = {h, i};
    }
  }
  if (named != places_.size() || lanes_ == 0) {
    throw UsageError("hierarchical communicator: the list of hosts must contain each rank once, and no empty host");
  }
  const Rank self = parts.whole.transport->rank();
  host_ = host_of(self);
  local_ = local_of(self);
  memory_ = parts.whole.shared_memory;
  if (memory_ == nullptr && neighbours().size() == 1) {
    own_memory_ = std::move(transport::make_inproc_shared_memory(1).front());
    memory_ = own_memory_.get();
  }
  if (memory_ == nullptr || memory_->local_size() != static_cast<int>(neighbours().size()) ||
      memory_->local_rank() != static_cast<int>(local_)) {
    throw UsageError("hierarchical communicator: the shared memory must be that of the ranks of this host");
  }
  group_->transport = parts.whole.transport;
  group_->counters = parts.whole.counters;
  group_->calls = parts.whole.calls;

  AlgorithmicParts inside = parts.whole;
  inside.calls = nullptr;  // the group's own operations count
  inside_transport_ = transport::make_subset(*parts.whole.transport, neighbours());
  inside.transport = inside_transport_.get();
  inside.shared_memory = memory_;
  inside.hosts = 1;
  inside_ = make_algorithmic(inside);  // sends no messages, so that the tags are all the other's
  if (!in_a_lane()) return;
  std::vector<Rank> lane;
  for (const auto& host : hosts_) lane.push_back(host[local_]);
  AlgorithmicParts across = parts.whole;
  across.calls = nullptr;
  across_transport_ = transport::make_subset(*parts.whole.transport, lane);
  across.transport = across_transport_.get();
  across.shared_memory = nullptr;
  across.hosts = static_cast<int>(hosts_.size());
  across.sharing = static_cast<int>(lanes_);
  across_ = make_algorithmic(across);
}

void Hierarchy::prepare(std::chrono::milliseconds timeout) {
  if (!stages_.empty()) return;
  group_->begin();
  static_cast<void>(inside_->allocate({}, timeout));  // makes its lanes
  const std::size_t sizes[] = {kStageBytes, kStageBytes};
  stages_ = allocate_shared_buffers(*memory_, sizes, timeout);
}

std::unique_ptr<PrivateBuffer> Hierarchy::take_scratch(std::size_t bytes) {
  for (auto& kept : scratch_) {
    if (kept->data().size() < bytes) continue;
    std::swap(kept, scratch_.back());
    auto taken = std::move(scratch_.back());
    scratch_.pop_back();
    return taken;
  }
  if (!scratch_.empty()) scratch_.pop_back();  // too small: replaced
  return std::make_unique<PrivateBuffer>(bytes);
}

std::vector<Rank> Hierarchy::named_inside(std::span<const Rank> local_ranks) const {
  std::vector<Rank> ranks;
  for (const Rank local : local_ranks) ranks.push_back(neighbours()[static_cast<std::size_t>(local)]);
  return ranks;
}

std::vector<Rank> Hierarchy::named_across(std::span<const Rank> hosts) const {
  std::vector<Rank> ranks;
  for (const Rank host : hosts) ranks.push_back(hosts_[static_cast<std::size_t>(host)][local_]);
  return ranks;
}

}  // namespace kolo::comm
