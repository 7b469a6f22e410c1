#pragma once
// create_context() creates a Context over an existing MPI communicator. Needs MPI's headers.
//
//   MPI_Comm_split(MPI_COMM_WORLD, color, 0, &comm);
//   const auto context = kolo::create_context(comm);
#include <mpi.h>

#include "kolo/context.h"
#include "kolo/detail/export.h"

namespace KOLO_EXPORT kolo {

// Collective over `comm`, which is duplicated and may be freed afterwards. The caller initialises MPI with at least
// MPI_THREAD_SERIALIZED and finalises MPI after the Context is destroyed. If kolo uses MPI between hosts
// (Config::network), a program that calls MPI meanwhile needs MPI_THREAD_MULTIPLE.
inline std::unique_ptr<Context> create_context(MPI_Comm comm, Config config = Config::from_environment()) {
  return Context::create_over(&comm, std::move(config));
}

}  // namespace kolo
