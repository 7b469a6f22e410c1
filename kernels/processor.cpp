#include "kernels/processor.h"

namespace kolo::kernels {

bool on_intel() noexcept {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel") != 0;
#else
  return false;
#endif
}

// The family is Zen 3's too, which has no such vectors.
bool on_zen4() noexcept {
#if defined(__x86_64__)
  return __builtin_cpu_is("amdfam19h") != 0 && __builtin_cpu_supports("avx512f") != 0;
#else
  return false;
#endif
}

}  // namespace kolo::kernels
