#pragma once
#include <mpi.h>

#include "cluster/make.h"

namespace kolo::cluster {

// A communicator of some ranks of a world in which others may be dead. The caller frees it. See make_mpi_subworld().
[[nodiscard]] MPI_Comm create_mpi_group(const Subworld& subworld);

}  // namespace kolo::cluster
