#pragma once
#include <cstddef>
#include <cstdint>

#include "kolo/types.h"

namespace kolo::kernels {

// What kolo_find_nonfinite takes.
struct FindNonfiniteArguments {
  const std::byte* data = nullptr;
  std::uint64_t count = 0;
  std::uint32_t* flag = nullptr;
  DType dtype = DType::f32;
};

}  // namespace kolo::kernels
