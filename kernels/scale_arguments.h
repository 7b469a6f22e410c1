#pragma once
#include <cstddef>
#include <cstdint>

#include "kolo/types.h"

namespace kolo::kernels {

// What kolo_scale takes.
struct ScaleArguments {
  std::byte* data = nullptr;
  std::uint64_t count = 0;
  double factor = 1.0;
  DType dtype = DType::f32;
};

}  // namespace kolo::kernels
