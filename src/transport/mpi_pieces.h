#pragma once
// For tests: make_mpi with pieces so short that a test can afford messages of several.
#include <cstddef>
#include <memory>

#include "transport/make.h"

namespace kolo::transport {

inline constexpr std::size_t kMpiPieceBytes = std::size_t{1} << 30;  // all ranks the same; fits an int

// Not there in a build without MPI.
[[nodiscard]] std::unique_ptr<Transport> make_mpi_in_pieces(const void* mpi_comm, telemetry::Counters& counters,
                                                            std::size_t piece_bytes);

}  // namespace kolo::transport
