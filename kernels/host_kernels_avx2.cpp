#include "kernels/has_f16c.h"
#include "kernels/reduce_body.h"
#include "kernels/scale_copy_body.h"

namespace kolo::kernels {

const HostKernels* avx2_kernels() noexcept {
  static constexpr HostKernels kernels{"avx2", reduce_job, scale_copy_job};
  static const bool usable = __builtin_cpu_supports("avx2") && has_f16c();
  return usable ? &kernels : nullptr;
}

}  // namespace kolo::kernels
