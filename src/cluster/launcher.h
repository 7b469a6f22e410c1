#pragma once
#include <functional>
#include <optional>
#include <string>

namespace kolo::cluster {

using Lookup = std::function<std::optional<std::string>(const std::string& variable)>;

// Throws UsageError when a launcher's variable promises another number of ranks than MPI found: then every process has
// become a world of its own (srun without PMIx, an mpirun of another MPI), and each would train alone.
void check_world_size(int found, const Lookup& lookup);

// The same for a process that no launcher has started that kolo knows: torchrun's, say.
void check_alone(const Lookup& lookup);

// This process's number among those that the launcher has started on this host; nothing where it does not say.
[[nodiscard]] std::optional<int> number_on_host(const Lookup& lookup);

}  // namespace kolo::cluster
