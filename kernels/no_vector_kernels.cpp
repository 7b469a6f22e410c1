// The twin of host_kernels_avx2.cpp and host_kernels_avx512.cpp on other processors.
#include "kernels/host_kernels.h"

namespace kolo::kernels {

const HostKernels* avx2_kernels() noexcept { return nullptr; }
const HostKernels* avx512_kernels() noexcept { return nullptr; }

}  // namespace kolo::kernels
