#pragma once

namespace kolo::cluster {

// A peer is dead: MPI_Finalize, which waits for everybody, must not be called when this process exits. Thread-safe;
// does nothing in a build without MPI.
void skip_mpi_finalize() noexcept;

}  // namespace kolo::cluster
