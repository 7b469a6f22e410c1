// The build without MPI.
#include "version.h"

namespace kolo::tools {

std::string mpi_version() { return "not built"; }

}  // namespace kolo::tools
