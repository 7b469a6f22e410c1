#pragma once
#include <cstddef>
#include <vector>

#include "nccl/nccl_api.h"

namespace kolo::test {

[[nodiscard]] std::size_t size_of(nccl::Type type);
// into[i] = into[i] op from[i], as NCCL computes: in the element's own type.
void reduce_into(std::vector<std::byte>& into, const std::vector<std::byte>& from, nccl::Type type, nccl::Op op);

}  // namespace kolo::test
