#pragma once
#include <vector>

#include "kolo/communicator.h"
#include "kolo/config.h"
#include "nccl/agree.h"

namespace kolo::nccl {

// What all ranks do with new memory; never automatic. `asked` and `algorithm`, of the whole communicator, are equal on
// all ranks. Throws UsageError on all of them for windows that cannot be had.
[[nodiscard]] NcclRegistration choose_registration(const std::vector<RankFacts>& ranks, NcclRegistration asked,
                                                   Algorithm algorithm);

}  // namespace kolo::nccl
