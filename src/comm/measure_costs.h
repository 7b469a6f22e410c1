#pragma once
#include <vector>

#include "comm/cost_model.h"
#include "comm/make.h"
#include "comm/measure_ways.h"

namespace kolo::comm {

// The constants of the cost model as the links show them now, and how far the ways are from what the constants say of
// them; equal on all ranks, each value the largest of what the ranks measured. Collective over the whole group and
// blocking, until whole.timeout (TimeoutError). It takes three seconds or so on a link of 1 Gbit/s, and uses the tags
// of `parts`. What it cannot see here (links inside a host where every host has one rank) stays as it is fixed.
// `memory` is work space, and must outlive the transport: a measurement that fails leaves messages on their way.
[[nodiscard]] Costs measure_costs(const HierarchicalParts& parts, std::vector<float>& memory,
                                  const WaysMeasured& range = {});

}  // namespace kolo::comm
