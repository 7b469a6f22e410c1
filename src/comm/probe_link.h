#pragma once
// Alpha and beta of the link between two ranks. Both ranks call at the same time and get the same result:
//
//   std::vector<float> memory;
//   const LinkCosts link = probe_link(transport, peer, first_tag, memory, 5s);
#include <chrono>
#include <vector>

#include "comm/cost_model.h"
#include "transport/transport.h"

namespace kolo::comm {

// A probe uses the tags [first_tag, first_tag + kProbeTags).
inline constexpr transport::Tag kProbeTags = 64;

// Blocks until `timeout`, then throws TimeoutError that names `peer`. Each value is the larger one of the two ranks and
// above 0. A probe sends about 6 MB each way. `memory` is work space; it must outlive `transport`, because a failed
// probe leaves messages in flight. Throws UsageError if `peer` is this rank or not in the group.
[[nodiscard]] LinkCosts probe_link(transport::Transport& transport, Rank peer, transport::Tag first_tag,
                                   std::vector<float>& memory, std::chrono::milliseconds timeout);

}  // namespace kolo::comm
