#pragma once
#include <poll.h>
#include <sys/types.h>

#include <span>
#include <vector>

#include "base/unique_fd.h"
#include "kolo/types.h"

namespace kolo::cluster {

// Watches another process of this host. Where the kernel has no pid descriptors (before 5.3), a dead process is seen
// only after its parent has collected it.
class PeerProcess {
 public:
  PeerProcess() = default;  // nobody: never dead
  // The calling process itself is allowed (ranks as threads), and never dead.
  PeerProcess(Rank world_rank, pid_t pid);
  [[nodiscard]] Rank rank() const noexcept { return rank_; }
  [[nodiscard]] bool dead() const noexcept;
  // Waits, if it must, so many milliseconds: a process closes its connections a little before it counts as dead.
  [[nodiscard]] bool dies_within(int milliseconds) const noexcept;
  // Becomes readable when the process dies; -1 where there is none. For poll().
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.get(); }
  // Whether it can die at all, as this process sees it: it is neither nobody nor this process itself.
  [[nodiscard]] bool watched() const noexcept { return pid_ != 0; }
  // Throws PeerLostError if dead.
  void require_alive() const;
  // Ends it by SIGKILL, through the descriptor: never another process that was given the same number. False where that
  // cannot be done (no descriptor, no right to).
  [[nodiscard]] bool end() const noexcept;

 private:
  Rank rank_ = 0;
  pid_t pid_ = 0;
  bool gone_ = false;  // already when we looked first
  base::UniqueFd descriptor_;
};

// Whether none of them has, as far as one look at all of them tells; false where that takes a look at each. `scratch`:
// memory that is used again.
[[nodiscard]] bool nobody_died(std::span<const PeerProcess> processes, std::vector<pollfd>& scratch);

}  // namespace kolo::cluster
