// Instead of mpi_transport.cpp, in a build without MPI.
#include "kolo/error.h"
#include "transport/make.h"

namespace kolo::transport {
namespace {

[[noreturn]] void refuse() {
  throw UsageError("this kolo was built without MPI: build with KOLO_WITH_MPI=ON to run on several hosts");
}

}  // namespace

std::unique_ptr<Transport> make_mpi(const void* /*mpi_comm*/, telemetry::Counters& /*counters*/) { refuse(); }

}  // namespace kolo::transport
