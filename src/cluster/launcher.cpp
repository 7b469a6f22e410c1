#include "cluster/launcher.h"

#include <charconv>
#include <filesystem>
#include <system_error>

#include "base/environment.h"
#include "cluster/make.h"
#include "kolo/error.h"

namespace kolo::cluster {
namespace {

std::optional<int> number(const std::optional<std::string>& text) {
  int value = 0;
  if (!text || text->empty()) return std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size()) return std::nullopt;
  return value;
}

void refuse_other_than(int found, const char* variable, const Lookup& lookup) {
  const auto promised = number(lookup(variable));
  if (!promised || *promised == found) return;
  throw UsageError(
      std::string(variable) + "=" + std::to_string(*promised) + ", but the number of ranks in MPI is " +
      std::to_string(found) +
      ". The launcher and the MPI library do not match: srun needs --mpi=pmix, and mpirun must belong to the "
      "MPI library of this program. If the variable is stale, unset it");
}

}  // namespace

void check_world_size(int found, const Lookup& lookup) {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE"}) {
    refuse_other_than(found, variable, lookup);
  }
  // Inside an allocation mpirun may start fewer ranks than the allocation has tasks; then its own word counts.
  if (!number(lookup("OMPI_COMM_WORLD_SIZE"))) refuse_other_than(found, "SLURM_NTASKS", lookup);
}

void check_alone(const Lookup& lookup) {
  const auto promised = number(lookup("WORLD_SIZE"));
  if (!promised || *promised < 2) return;
  throw UsageError("WORLD_SIZE=" + std::to_string(*promised) +
                   ", but no launcher that kolo knows has started this process, which would train alone. Start the "
                   "ranks with mpirun, srun or kolo run. If the variable is stale, unset it");
}

std::optional<int> number_on_host(const Lookup& lookup) {
  for (const char* variable : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PALS_LOCAL_RANKID", "SLURM_LOCALID"}) {
    if (const auto found = number(lookup(variable)); found && *found >= 0) return found;
  }
  return std::nullopt;
}

std::optional<LaunchedRank> launched_rank(const Lookup& lookup) {
  const auto value = [&lookup](const char* variable) { return lookup(variable).value_or(""); };
  const auto made = [&](const std::string& job, const char* rank) -> std::optional<LaunchedRank> {
    const auto found = number(lookup(rank));
    if (!found || *found < 0) return std::nullopt;
    return LaunchedRank{job, *found, false};
  };
  if (lookup("PMIX_NAMESPACE")) {
    return made("pmix " + value("PMIX_NAMESPACE") + " " + value("PMIX_SERVER_URI2"), "PMIX_RANK");
  }
  if (lookup("SLURM_JOB_ID") && lookup("SLURM_STEP_ID")) {
    return made("slurm " + value("SLURM_JOB_ID") + "." + value("SLURM_STEP_ID"), "SLURM_PROCID");
  }
  // MPICH's launcher names no job, but gives each rank a socket of its own.
  if (!lookup("PMI_FD")) return std::nullopt;
  std::error_code error;
  const auto socket = std::filesystem::read_symlink("/proc/self/fd/" + value("PMI_FD"), error);
  if (error) return std::nullopt;
  auto rank = made("pmi " + socket.string(), "PMI_RANK");
  if (rank) rank->of_one_rank = true;
  return rank;
}

std::vector<std::string> launcher_variables(const Lookup& lookup) {
  std::vector<std::string> found;
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"}) {
    if (lookup(variable)) found.emplace_back(variable);
  }
  // A batch script has SLURM_NTASKS too; a process that srun started has a step as well.
  if (lookup("SLURM_STEP_ID") && lookup("SLURM_PROCID")) found.emplace_back("SLURM_PROCID");
  if (number(lookup("WORLD_SIZE")).value_or(1) > 1) found.emplace_back("WORLD_SIZE");
  return found;
}

bool started_by_launcher() {
  const auto variables = launcher_variables(base::get_environment);
  if (!variables.empty() && variables.front() != "WORLD_SIZE") return true;
  check_alone(base::get_environment);
  return false;
}

}  // namespace kolo::cluster
