#include "kernels/has_f16c.h"
#include "kernels/reduce_body.h"
#include "kernels/scale_copy_body.h"

namespace kolo::kernels {

const HostKernels* avx512_kernels() noexcept {
  static constexpr HostKernels kernels{"avx512", reduce_job, scale_copy_job};
  static const bool usable = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                             __builtin_cpu_supports("avx512vl") && has_f16c();
  return usable ? &kernels : nullptr;
}

}  // namespace kolo::kernels
