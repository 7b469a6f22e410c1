#pragma once
#include <span>
#include <vector>

#include "base/deadline.h"
#include "comm/corrections.h"
#include "comm/make.h"

namespace kolo::comm {

// How much longer each way takes on the whole group than `constants` say, equal on all ranks. Collective and blocking,
// until `deadline` (TimeoutError); some three seconds on a link of 1 Gbit/s. None for a group on one host, where ways
// are not chosen by the model. `memory` is as for measure_costs().
[[nodiscard]] Corrections measure_ways(const HierarchicalParts& parts, const CostConstants& constants,
                                       const base::Deadline& deadline, std::vector<float>& memory);

// Each value becomes the largest that any rank has. Collective; the message is in `memory`.
void agree_on_largest(Communicator& all, std::vector<float>& memory, std::span<double> values,
                      std::chrono::milliseconds timeout);

}  // namespace kolo::comm
