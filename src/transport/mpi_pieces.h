#pragma once
// For tests: make_mpi with pieces so short that a test can afford messages of several.
#include <cstddef>
#include <memory>

#include "transport/make.h"

namespace kolo::transport {

// All ranks the same. Longer than a segment of 60 KiB, which then is one piece and not a full one; with MPI's header
// shorter than the 64 KiB from which on Open MPI asks the receiver before it sends over TCP: then the two directions of
// a link take turns.
inline constexpr std::size_t kMpiPieceBytes = 60 * 1024 + 64;

// Not there in a build without MPI.
[[nodiscard]] std::unique_ptr<Transport> make_mpi_in_pieces(const void* mpi_comm, telemetry::Counters& counters,
                                                            std::size_t piece_bytes);

}  // namespace kolo::transport
