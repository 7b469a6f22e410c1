// Instead of mpi_transport.cpp, in a build without MPI.
#include "kolo/error.h"
#include "transport/make.h"
#include "transport/mpi_device_memory.h"

namespace kolo::transport {

std::unique_ptr<Transport> make_mpi(const void* /*mpi_comm*/, telemetry::Counters& /*counters*/) {
  throw UsageError("this kolo was built without MPI: build with KOLO_WITH_MPI=ON to run on several hosts");
}

std::optional<bool> mpi_takes_device_memory() { return std::nullopt; }

}  // namespace kolo::transport
