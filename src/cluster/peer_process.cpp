#include "cluster/peer_process.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

#include "cluster/mpi_exit.h"
#include "kolo/error.h"

namespace kolo::cluster {

PeerProcess::PeerProcess(Rank world_rank, pid_t pid) : rank_(world_rank) {
  if (pid == getpid()) return;
  pid_ = pid;
#ifdef SYS_pidfd_open
  descriptor_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0U)));
  gone_ = !descriptor_ && errno == ESRCH;
#endif
}

bool PeerProcess::dead() const noexcept { return dies_within(0); }

bool PeerProcess::dies_within(int milliseconds) const noexcept {
  if (gone_) return true;
  if (pid_ == 0) return false;
  const auto has_no_process = [this] { return kill(pid_, 0) != 0 && errno == ESRCH; };
  if (!descriptor_) return has_no_process();
  pollfd entry{descriptor_.get(), POLLIN, 0};
  if (poll(&entry, 1, milliseconds) <= 0) return false;
  const bool closed = (entry.revents & POLLNVAL) != 0;  // by the program, which closed what is not its own
  return !closed || has_no_process();
}

void PeerProcess::require_alive() const {
  if (!dead()) return;
  skip_mpi_finalize();  // it would wait for the dead
  throw PeerLostError(rank_, "rank " + std::to_string(rank_) + " died (process " + std::to_string(pid_) + ")");
}

bool PeerProcess::end() const noexcept {
#ifdef SYS_pidfd_send_signal
  return descriptor_ && syscall(SYS_pidfd_send_signal, descriptor_.get(), SIGKILL, nullptr, 0U) == 0;
#else
  return false;
#endif
}

bool nobody_died(std::span<const PeerProcess> processes, std::vector<pollfd>& scratch) {
  scratch.clear();
  for (const auto& process : processes) {
    if (!process.watched()) continue;
    if (process.descriptor() < 0) return false;
    scratch.push_back({process.descriptor(), POLLIN, 0});
  }
  return poll(scratch.data(), scratch.size(), 0) == 0;
}

}  // namespace kolo::cluster
