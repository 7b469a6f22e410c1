#include "cluster/launcher.h"

#include <charconv>

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
  throw UsageError(std::string(variable) + "=" + std::to_string(*promised) + " promises " + std::to_string(*promised) +
                   " ranks, but MPI found " + std::to_string(found) +
                   ": the launcher and the MPI library do not know each other (srun needs --mpi=pmix; mpirun must be "
                   "that of the MPI this program is linked with). If the variable is left over, unset it");
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
  throw UsageError("WORLD_SIZE=" + std::to_string(*promised) + " promises " + std::to_string(*promised) +
                   " ranks, but no launcher that kolo knows has started this process, which would train alone: start "
                   "the ranks by mpirun, srun or kolo run. If the variable is left over, unset it");
}

std::optional<int> number_on_host(const Lookup& lookup) {
  for (const char* variable : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PALS_LOCAL_RANKID", "SLURM_LOCALID"}) {
    if (const auto found = number(lookup(variable)); found && *found >= 0) return found;
  }
  return std::nullopt;
}

bool started_by_launcher() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"}) {
    if (base::get_environment(variable)) return true;
  }
  // A batch script has SLURM_NTASKS too; a process that srun started has a step as well.
  if (base::get_environment("SLURM_STEP_ID") && base::get_environment("SLURM_PROCID")) return true;
  check_alone(base::get_environment);
  return false;
}

}  // namespace kolo::cluster
