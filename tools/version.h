#pragma once
#include <string>

namespace kolo::tools {

// What `kolo --version` prints: one `key value` a line, and no newline at the end.
std::string version_text();

// The version of the MPI library that this process has loaded, or "not built".
std::string mpi_version();

}  // namespace kolo::tools
