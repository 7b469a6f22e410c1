#pragma once
#include <chrono>

#include "cuda/kernel.h"

namespace kolo::kernels {

// Runs one of kolo's kernels, with nothing to do, in the default stream of `device`, and waits for it. Throws where the
// device code does not run there: UsageError for a build without any, BackendError for a device that it was not
// compiled for, or that has not come to its end after `timeout`.
void try_out(const cuda::RuntimePtr& runtime, cuda::KernelImage& image, int device, std::chrono::milliseconds timeout);

}  // namespace kolo::kernels
