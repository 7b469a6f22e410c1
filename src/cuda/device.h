#pragma once
#include <string>

namespace kolo::cuda {

// How many devices this process can use: 0 without CUDA, without a driver and without a device.
[[nodiscard]] int device_count();
// One line for people: the devices, or why there are none.
[[nodiscard]] std::string describe();

}  // namespace kolo::cuda
