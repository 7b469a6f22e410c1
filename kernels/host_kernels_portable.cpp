#include "kernels/reduce_body.h"
#include "kernels/scale_copy_body.h"

namespace kolo::kernels {

const HostKernels* portable_kernels() noexcept {
  static constexpr HostKernels kernels{"portable", reduce_job, scale_copy_job};
  return &kernels;
}

}  // namespace kolo::kernels
