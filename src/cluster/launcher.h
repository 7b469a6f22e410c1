#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kolo::cluster {

using Lookup = std::function<std::optional<std::string>(const std::string& variable)>;

// Throws UsageError when a launcher's variable promises another number of ranks than MPI found: then every process has
// become a world of its own (srun without PMIx, an mpirun of another MPI), and each would train alone.
void check_world_size(int found, const Lookup& lookup);

// The same for a process that no launcher has started that kolo knows: torchrun's, say.
void check_alone(const Lookup& lookup);

// This process's number among those that the launcher has started on this host; nothing where it does not say.
[[nodiscard]] std::optional<int> number_on_host(const Lookup& lookup);

// The rank that a launcher has given to this process and to all processes that this one starts.
struct LaunchedRank {
  std::string job;           // of one launch on one machine: no other has the same text
  int rank = 0;              // in MPI_COMM_WORLD
  bool of_one_rank = false;  // `job` differs between the ranks of a job, too
};
// Empty if the environment identifies no job: no launcher has started this process, or the launcher
// has no PMIx, Slurm or PMI socket.
[[nodiscard]] std::optional<LaunchedRank> launched_rank(const Lookup& lookup);

// The set variables for which started_by_launcher() returns true or throws. A process without them
// is a world of one rank.
[[nodiscard]] std::vector<std::string> launcher_variables(const Lookup& lookup);

}  // namespace kolo::cluster
