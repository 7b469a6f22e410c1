#pragma once
// Opt-in: a Context over a communicator of the program's own. Needs MPI's headers.
#include <mpi.h>

#include "kolo/context.h"
#include "kolo/export.h"

namespace KOLO_EXPORT kolo {

// Collective over `comm`, which is duplicated and may be freed afterwards. The program has initialised MPI, at
// MPI_THREAD_SERIALIZED or above, and finalises it after the Context is gone.
inline std::unique_ptr<Context> create_context(MPI_Comm comm, Config config = Config::from_environment()) {
  return Context::create_over(&comm, std::move(config));
}

}  // namespace kolo
