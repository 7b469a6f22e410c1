#pragma once
#include <concepts>
#include <cstddef>
#include <memory>
#include <vector>

#include "cluster/bootstrap.h"
#include "cluster/stall_warning.h"

namespace kolo::cluster {

// A world of one rank: a program that was started plainly.
[[nodiscard]] std::unique_ptr<Bootstrap> make_single_bootstrap();
// Ranks as threads, said to stand on several hosts: element r is the number of rank r's.
[[nodiscard]] std::vector<std::unique_ptr<Bootstrap>> make_inproc_bootstrap(const std::vector<int>& hosts);
// Ranks as threads, all on one host. A template, so that a list in braces is a list of hosts: see
// Context::create_local.
template <std::same_as<int> Count>
[[nodiscard]] std::vector<std::unique_ptr<Bootstrap>> make_inproc_bootstrap(Count ranks) {
  return make_inproc_bootstrap(std::vector<int>(static_cast<std::size_t>(ranks > 0 ? ranks : 0), 0));
}
// MPI_COMM_WORLD, or the user's communicator (a MPI_Comm*). Initialises MPI if nobody has (at least
// MPI_THREAD_SERIALIZED) and then owns its end: finalised at exit. Throws UsageError when the environment promises more
// ranks than MPI found, when the program initialised MPI at a level too low, when another process of this rank has
// started MPI, and in a build without MPI. `stall` tells which ranks do not come.
[[nodiscard]] std::unique_ptr<Bootstrap> make_mpi_bootstrap(const void* mpi_comm = nullptr,
                                                            const StallWarning& stall = {});
// Whether the environment says that a launcher (mpirun, srun) started this process. Throws UsageError where it says
// that one did which kolo does not know.
[[nodiscard]] bool started_by_launcher();

}  // namespace kolo::cluster
