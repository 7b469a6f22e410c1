// Instead of mpi_transport.cpp, in a build without MPI.
#include "kolo/error.h"
#include "transport/device_transport.h"
#include "transport/make.h"
#include "transport/mpi_device_memory.h"

namespace kolo::transport {
namespace {

[[noreturn]] void refuse() {
  throw UsageError("this kolo was built without MPI: build with KOLO_WITH_MPI=ON to run on several hosts");
}

}  // namespace

std::unique_ptr<Transport> make_mpi(const void* /*mpi_comm*/, telemetry::Counters& /*counters*/) { refuse(); }

std::unique_ptr<DeviceTransport> make_mpi_for_devices(const void* /*mpi_comm*/, telemetry::Counters& /*counters*/) {
  refuse();
}

std::optional<bool> mpi_takes_device_memory() { return std::nullopt; }

}  // namespace kolo::transport
