#include "transport/mpi_device_memory.h"

#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

namespace kolo::transport {

// The header's own constant says what the MPI that kolo was compiled with could do; the function, what this one can.
std::optional<bool> mpi_takes_device_memory() {
#ifdef MPIX_CUDA_AWARE_SUPPORT
  return MPIX_Query_cuda_support() == 1;
#else
  return std::nullopt;
#endif
}

}  // namespace kolo::transport
