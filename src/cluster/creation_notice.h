#pragma once
// Tells the ranks of one machine which of them have begun to create a Context. MPI itself cannot: MPI_Init and
// MPI_Comm_idup wait for all ranks and name none, and a message could be taken by a receive of the program's own.
//
// A rank holds an abstract name while it creates a Context. A rank that waits looks for processes of its job, and for
// the name of each. It therefore knows nothing of ranks on other machines, in other containers, or of other users, nor
// of launchers without PMIx and Slurm.
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "cluster/launcher.h"
#include "kolo/types.h"

namespace kolo::cluster {

class CreationNotice {
 public:
  // Holds this rank's name until it is destroyed. `members` are the ranks of MPI_COMM_WORLD that create the Context, in
  // the order of their ranks there; empty: all of the job's.
  CreationNotice(std::optional<LaunchedRank> mine, std::vector<Rank> members);
  // Ranks of the Context whose process runs on this machine without having begun to create it, ascending. Reads /proc.
  [[nodiscard]] std::vector<Rank> missing() const;
  // "stall: waited_ms=1000: Context::create(): waiting for rank 2, ...", with the remedy. `waited` is the part before
  // the call.
  [[nodiscard]] std::string describe_wait(const std::string& waited, const std::vector<Rank>& missing) const;

 private:
  [[nodiscard]] std::string name_of(Rank rank) const;
  [[nodiscard]] std::vector<Rank> in_world(const std::vector<Rank>& ranks) const;

  std::optional<LaunchedRank> mine_;
  std::vector<Rank> members_;
  std::string group_;  // the beginning of its ranks' names
  base::UniqueFd held_;
};

}  // namespace kolo::cluster
