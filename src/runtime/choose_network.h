#pragma once
#include "cluster/bootstrap.h"
#include "kolo/config.h"

namespace kolo::runtime {

// tcp or mpi, the same on all ranks: what `setting` says; where that is automatic, MPI if every rank's host has an RDMA
// device, TCP otherwise. Collective. Throws UsageError on every rank when the settings differ.
[[nodiscard]] Network choose_network(cluster::Bootstrap& bootstrap, Network setting);

}  // namespace kolo::runtime
