#pragma once
#include <mpi.h>

#include <algorithm>

#include "cluster/mpi_runtime.h"
#include "transport/transport.h"

namespace kolo::transport {

// The largest tag that this MPI takes, or Transport does. REQUIRES: a turn is not held.
[[nodiscard]] inline Tag last_mpi_tag() {
  const cluster::MpiTurn turn;
  int found = 0;
  int* upper_bound = nullptr;
  cluster::check_mpi(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&upper_bound), &found),
                     "MPI_TAG_UB");
  constexpr int kEveryMpi = 32767;
  return found == 0 ? kEveryMpi : static_cast<Tag>(std::clamp(*upper_bound, kEveryMpi, static_cast<int>(kLastTag)));
}

}  // namespace kolo::transport
