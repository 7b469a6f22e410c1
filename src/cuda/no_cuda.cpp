// The twin of the CUDA backend in builds without it.
#include "cuda/device.h"

namespace kolo::cuda {

int device_count() { return 0; }

std::string describe() { return "no devices: this kolo was built without CUDA"; }

}  // namespace kolo::cuda
