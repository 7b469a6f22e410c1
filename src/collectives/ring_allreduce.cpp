// Allreduce and reduce-scatter and allgather as the ring's whole and halves.
//
//   allreduce        flags by dissemination; unless vetoed, both halves of the ring, in place
//   reduce-scatter   the input is copied, the first half of the ring runs on the copy, the own block is copied out
//   allgather        the second half, on blocks as uneven as the caller's
#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "collectives/flagged_allreduce.h"
#include "collectives/ring.h"
#include "collectives/widen.h"

namespace kolo::collectives {
namespace {

std::vector<std::size_t> even_blocks(std::size_t count, int size, DType dtype) {
  std::vector<std::size_t> blocks(static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r)
    blocks[static_cast<std::size_t>(r)] = part_of(count, size, r, line_grain(dtype)).size();
  return blocks;
}

// Both halves, as FlaggedAllreduce has it.
class AllreduceRing : public Ring {
 public:
  AllreduceRing(transport::Transport& transport, const AllreducePlan& plan)
      : Ring(transport, plan.tag,
             {.data = plan.data,
              .scattering = plan.scattering,
              .blocks = even_blocks(plan.count, transport.size(), plan.reduction.dtype),
              .reduction = plan.reduction,
              .segment_bytes = plan.segment_bytes}) {}
};

class RingAllgather final : public Machine {
 public:
  RingAllgather(const NetworkParts& parts, const AllgatherOptions& options) : Machine(parts.group) {
    const auto self = static_cast<std::size_t>(group().rank());
    std::byte* own = options.output +
                     std::accumulate(options.counts.begin(), options.counts.begin() + group().rank(), std::size_t{0});
    if (options.counts[self] != 0 && own != options.input) std::memcpy(own, options.input, options.counts[self]);
    Ring::Plan plan;
    plan.part = Ring::Part::allgather;
    plan.data = options.output;
    plan.blocks.assign(options.counts.begin(), options.counts.end());
    plan.reduction.dtype = DType::u8;
    plan.segment_bytes = parts.segment_bytes;
    ring_.emplace(*group().transport, parts.tag, std::move(plan));
  }
  [[nodiscard]] std::vector<Rank> waiting_for() const override { return ring_->waiting_for(); }

 private:
  bool step() override { return ring_->advance(); }
  std::optional<Ring> ring_;
};

class RingReduceScatter final : public Machine {
 public:
  RingReduceScatter(const NetworkParts& parts, const ReduceScatterOptions& options)
      : Machine(parts.group), options_(options), wide_(needs_wide_sums(options.dtype, options.op)) {
    const std::size_t count = std::accumulate(options.counts.begin(), options.counts.end(), std::size_t{0});
    Ring::Plan plan;
    plan.part = Ring::Part::reduce_scatter;
    plan.blocks.assign(options.counts.begin(), options.counts.end());
    plan.reduction = {wide_ ? DType::i64 : options.dtype, options.op};
    plan.segment_bytes = parts.segment_bytes;
    work_.resize(count * size_of(plan.reduction.dtype));
    plan.data = work_.data();
    if (wide_) {
      widen(options.input, options.dtype, count, reinterpret_cast<std::int64_t*>(work_.data()));
    } else if (count != 0) {
      std::memcpy(work_.data(), options.input, work_.size());
    }
    ring_.emplace(*group().transport, parts.tag, std::move(plan));
  }
  [[nodiscard]] std::vector<Rank> waiting_for() const override { return ring_->waiting_for(); }

 private:
  bool step() override {
    if (!ring_->advance()) return false;
    const auto mine = options_.counts.begin() + group().rank();
    if (*mine == 0) return true;
    const std::size_t before = std::accumulate(options_.counts.begin(), mine, std::size_t{0});
    if (wide_) {
      narrow(reinterpret_cast<const std::int64_t*>(work_.data()) + before, options_.dtype, *mine, options_.output);
    } else {
      const std::size_t element = size_of(options_.dtype);
      std::memcpy(options_.output, work_.data() + before * element, *mine * element);
    }
    return true;
  }

  ReduceScatterOptions options_;
  bool wide_;
  std::vector<std::byte> work_;
  std::optional<Ring> ring_;
};

}  // namespace

std::unique_ptr<Operation> start_ring_allreduce(const NetworkParts& parts, const AllreduceOptions& options) {
  return start_ring_allreduce(parts, options, {});
}

std::unique_ptr<Operation> start_ring_allreduce(const NetworkParts& parts, const AllreduceOptions& options,
                                                const SegmentedBuffer& scattering) {
  return std::make_unique<FlaggedAllreduce<AllreduceRing>>(parts, options, scattering);
}

std::unique_ptr<Operation> start_ring_allgather(const NetworkParts& parts, const AllgatherOptions& options) {
  return std::make_unique<RingAllgather>(parts, options);
}

std::unique_ptr<Operation> start_ring_reduce_scatter(const NetworkParts& parts, const ReduceScatterOptions& options) {
  return std::make_unique<RingReduceScatter>(parts, options);
}

}  // namespace kolo::collectives
