#pragma once
#include <cstddef>
#include <cstdint>

#include "kolo/types.h"

namespace kolo::kernels {

// What kolo_accumulate takes.
struct AccumulateArguments {
  std::byte* sum = nullptr;
  const std::byte* addend = nullptr;
  std::uint64_t count = 0;
  DType dtype = DType::f32;
};

}  // namespace kolo::kernels
