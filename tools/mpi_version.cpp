// The build with MPI; no_mpi_version.cpp is its twin.
#include <mpi.h>

#include <algorithm>
#include <string>

#include "version.h"

namespace kolo::tools {

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);  // may be called before MPI_Init
  std::string line(text, static_cast<std::size_t>(length));
  line.resize(std::min({line.size(), line.find('\n'), line.find('\0')}));  // MPICH adds lines about how it was built
  std::ranges::replace(line, '\t', ' ');
  return line;
}

}  // namespace kolo::tools
