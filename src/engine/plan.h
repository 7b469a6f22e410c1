#pragma once
// A plan: which gradients travel together, where they lie, and in which order the buckets go. Every rank derives the
// same plan from the same table, order and caps, which all ranks have compared.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kolo/config.h"
#include "kolo/spi/gradient_reducer.h"
#include "kolo/types.h"

namespace kolo::engine {

struct PlannedTensor {
  std::uint32_t index = 0;  // in the table
  std::size_t offset = 0;   // bytes from the bucket's start, a multiple of 64
  std::size_t bytes = 0;
  bool operator==(const PlannedTensor&) const = default;
};

struct PlannedBucket {
  DType dtype = DType::f32;
  bool on_device = false;
  std::size_t bytes = 0;  // a multiple of 64
  std::vector<PlannedTensor> tensors;
  bool operator==(const PlannedBucket&) const = default;
};

struct Plan {
  std::vector<PlannedBucket> buckets;  // in launch order
};

struct PlanCaps {
  std::size_t bucket_bytes = 0;
  std::size_t last_bucket_bytes = 0;
};

// `bucket_bytes`: what was asked for, 0: as Config has it. `by_network`: from the hosts' memory, between hosts.
[[nodiscard]] PlanCaps caps_of(const Config& config, std::size_t bucket_bytes, bool by_network) noexcept;

// A bucket holds at most so many tensors: its flag words have a bit for each.
inline constexpr std::size_t kMaxTensorsPerBucket = 2048;

// `order`: indices of the table as gradients were observed; those missing in it follow in reverse table order (the
// usual order of a backward pass). It came from a peer: DamagedMessage for an index outside the table, or there twice.
[[nodiscard]] Plan build_plan(const std::vector<GradientInfo>& table, const std::vector<std::uint32_t>& order,
                              const PlanCaps& caps);

}  // namespace kolo::engine
