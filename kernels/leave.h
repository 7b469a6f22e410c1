#pragma once
#include <cstdint>

namespace kolo::kernels {

// When an update is not made: what is known only when the device comes to it. Null: no reason.
struct Leave {
  const float* skip = nullptr;              // in the device's memory: where it is not 0
  const std::uint32_t* given_up = nullptr;  // in the host's, which sets it at any time: where it is not 0
};

}  // namespace kolo::kernels
