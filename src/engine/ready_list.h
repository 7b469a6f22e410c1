#pragma once
// The root's part: from what all ranks have submitted to one ordered list of operations. A function of its arguments.
#include <cstdint>
#include <vector>

#include "engine/messages.h"

namespace kolo::engine {

// Items in the entries' order, numbered from `first_sequence`. Neighbouring allreduces of equal dtype, reduction and
// scales become one item as long as their sum stays within `fusion_bytes`. A disagreement, or a refusal, is an item of
// its own.
[[nodiscard]] std::vector<Item> make_ready_list(const std::vector<Entry>& entries, std::size_t fusion_bytes, int size,
                                                std::uint64_t first_sequence);

// Whether two operations may travel as one.
[[nodiscard]] bool may_fuse(const Signature& a, const Signature& b);
// Bytes of a contiguous tensor of these sizes.
[[nodiscard]] std::size_t payload_bytes(const Signature& signature);

}  // namespace kolo::engine
