#pragma once
// Whether gradients may be used: one look at them, whose answer stays on the device.
#include "kernels/update_launch.h"

namespace kolo::kernels {

// A table of one column: the gradients. `flag`, in device memory, becomes 1 if any element is infinite or no number;
// else it stays as it is. So one flag, zeroed before, serves all tables of a step. Throws UsageError as update_sgd();
// the launch's scale plays no part.
void find_nonfinite(const UpdateLaunch& launch, float* flag);

}  // namespace kolo::kernels
