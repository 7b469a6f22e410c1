#pragma once
// What kolo is measured against: plain MPI, and the rate at which this machine copies memory past its caches.
#include <cstddef>
#include <memory>

#include "kolo/communicator.h"
#include "kolo/export.h"

namespace KOLO_EXPORT kolo {

// MPI's own collectives behind kolo's interface, over MPI_COMM_WORLD. Collective. Calls block inside start() and know
// no deadline. Throws UsageError in a build without MPI.
[[nodiscard]] std::unique_ptr<Communicator> make_mpi_baseline();

// A copy with non-temporal stores. The ranges must not overlap.
void streaming_copy(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace kolo
