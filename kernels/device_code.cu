// All device code of kolo, as one translation unit: it becomes one image. See device_kernel_list.h.
#include "kernels/block_shape.h"
#include "kernels/device_kernel_list.h"

namespace kolo::kernels {

#define KOLO_DEFINE_KERNEL(name, Arguments)                                        \
  extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor) \
      kolo_##name(const __grid_constant__ Arguments arguments) {                   \
    name##_body(arguments, {blockIdx.x, gridDim.x, threadIdx.x, blockDim.x});      \
  }
KOLO_DEVICE_KERNELS(KOLO_DEFINE_KERNEL)

}  // namespace kolo::kernels
