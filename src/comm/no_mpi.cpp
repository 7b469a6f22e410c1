// Stands in for mpi_communicator.cpp where MPI was not built.
#include "comm/make.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"

namespace kolo::comm {

std::unique_ptr<Communicator> make_mpi(const void* /*mpi_comm*/) {
  throw UsageError("this kolo was built without MPI (KOLO_WITH_MPI)");
}

}  // namespace kolo::comm
