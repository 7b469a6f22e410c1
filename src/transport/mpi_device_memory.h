#pragma once
#include <optional>

namespace kolo::transport {

// Whether MPI says that it takes addresses of device memory ("CUDA-aware"). Nothing: it does not say, as only Open MPI
// has a question for it, or this is a build without MPI. REQUIRES: MPI has been started.
[[nodiscard]] std::optional<bool> mpi_takes_device_memory();

}  // namespace kolo::transport
