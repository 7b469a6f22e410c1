#pragma once
// How this process's MPI ends: MPI_Finalize waits for every rank, and one that is gone, or stands still, never comes.
#include <chrono>
#include <functional>

namespace kolo::cluster {

// These seven are thread-safe, and do nothing in a build without MPI.

// A peer is dead: MPI_Finalize must not be called when this process exits.
void skip_mpi_finalize() noexcept;
// MPI_Finalize may take `limit`, and never less than two seconds, at an exit that is not in order: with a status other
// than 0, or after note_failed_group(). Then the process ends with that status and without it. The largest limit
// counts.
void limit_mpi_finalize(std::chrono::milliseconds limit) noexcept;
// A group of ranks has failed: who of them still comes to MPI_Finalize nobody knows.
void note_failed_group() noexcept;
// A group of `ranks` has taken leave of each other. If these are all of MPI's, what failed before is forgotten.
void note_orderly_end(int ranks) noexcept;
// A Context of this process has begun; returns what note_closed_group() is given when it is over. Whoever exits with a
// status other than 0 within one does not come to MPI_Finalize: its peers wait for it elsewhere, and are told when its
// process has ended. At an exit with status 0 `leave` is called first: it takes leave of the peers, and closes the
// group.
[[nodiscard]] int note_open_group(std::function<void()> leave);
void note_closed_group(int group) noexcept;
// A Context could not be made here, or has been since: the same for an exit in between; and one with status 0 has a
// limit there.
void note_failed_start(bool failed) noexcept;

// For mpi_runtime.cpp. From now on MPI is finalised at exit, unless somebody else has done it.
void finalize_mpi_at_exit();
[[nodiscard]] bool skips_mpi_finalize() noexcept;
// The largest that limit_mpi_finalize() was told, for MPI_Init.
[[nodiscard]] std::chrono::milliseconds mpi_limit() noexcept;

}  // namespace kolo::cluster
