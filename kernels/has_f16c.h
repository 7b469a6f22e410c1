#pragma once
// Whether the processor converts 16-bit floats itself. Asked here because clang has no name for it in
// __builtin_cpu_supports. `static`: the files that ask are compiled for different processors, and each keeps its own.
#include <cpuid.h>

namespace kolo::kernels {

static inline bool has_f16c() noexcept {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace kolo::kernels
