#pragma once
#include "cuda/runtime.h"
#include "kolo/spi/communicator.h"

namespace kolo::device {

// A group of one, for memory of its device: nothing to exchange, and no NCCL to have. Sums, and all else, are what is
// there already; factors other than 1 are a UsageError, as kolo multiplies where it packs.
[[nodiscard]] std::unique_ptr<Communicator> make_solo(const cuda::RuntimePtr& runtime, int device);

}  // namespace kolo::device
