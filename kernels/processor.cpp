#include "kernels/processor.h"

namespace kolo::kernels {

bool on_intel() noexcept {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel") != 0;
#else
  return false;
#endif
}

}  // namespace kolo::kernels
