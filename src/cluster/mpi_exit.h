#pragma once
// How this process's MPI ends: MPI_Finalize waits for every rank, and one that is gone, or stands still, never comes.
#include <chrono>

namespace kolo::cluster {

// These three are thread-safe, and do nothing in a build without MPI.

// A peer is dead: MPI_Finalize must not be called when this process exits.
void skip_mpi_finalize() noexcept;
// MPI_Finalize may take `limit` at an exit that is not in order: with a status other than 0, or after
// note_failed_group(). Then the process ends with that status and without it. The last call counts.
void limit_mpi_finalize(std::chrono::milliseconds limit) noexcept;
// A group of ranks has failed: who of them still comes to MPI_Finalize nobody knows.
void note_failed_group() noexcept;

// For mpi_runtime.cpp. From now on MPI is finalised at exit, unless somebody else has done it.
void finalize_mpi_at_exit();
[[nodiscard]] bool skips_mpi_finalize() noexcept;

}  // namespace kolo::cluster
