#pragma once
#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "comm/corrections.h"
#include "comm/make.h"

namespace kolo::comm {

// How far measure_ways() goes.
struct WaysMeasured {
  std::size_t largest_bytes = 4 << 20;
  std::chrono::microseconds longest{50'000};  // of all ways once: no larger size after it
};

// How much longer each way takes on the whole group than `constants` say, equal on all ranks. Collective and blocking,
// until `deadline` (TimeoutError); some three seconds on a link of 1 Gbit/s. None for a group on one host, where ways
// are not chosen by the model. `memory` is as for measure_costs().
[[nodiscard]] Corrections measure_ways(const HierarchicalParts& parts, const CostConstants& constants,
                                       const base::Deadline& deadline, std::vector<float>& memory,
                                       const WaysMeasured& range = {});

// Each value becomes the largest that any rank has. Collective; the message is in `memory`.
void agree_on_largest(Communicator& all, std::vector<float>& memory, std::span<double> values,
                      std::chrono::milliseconds timeout);

}  // namespace kolo::comm
