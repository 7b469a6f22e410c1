#pragma once
// The process's MPI. There is one MPI a process, whatever we do, so this is the one place with process-wide state:
// who initialised it, at which level, and whether it must be finalised at exit. It outlives every Context, because MPI
// cannot be initialised a second time.
//
// kolo's objects are each used by one thread at a time, but by different ones at the same time. Where MPI is
// MPI_THREAD_SERIALIZED only, their calls take turns: every call is made under an MpiTurn.
#include <mpi.h>

#include <functional>
#include <mutex>
#include <string_view>

#include "base/deadline.h"
#include "cluster/exit_limit.h"
#include "cluster/mpi_exit.h"
#include "kolo/error.h"

namespace kolo::cluster {

// If MPI is not initialised, initialises it, and finalises it at exit unless the program has.
// Throws UsageError if MPI is finalised or below MPI_THREAD_SERIALIZED, or if another process of
// this rank has started MPI. While MPI_Init waits for all ranks, another thread calls `reminder`.
void require_mpi(ExitLimit::Reminder reminder = {});
// Whether MPI may still be called; destructors ask.
[[nodiscard]] bool mpi_usable() noexcept;

// The right to call MPI, for as long as it lives. Hold it for non-blocking calls only. Not recursive.
class MpiTurn {
 public:
  MpiTurn();

 private:
  std::unique_lock<std::mutex> lock_;
};

// Throws BackendError with MPI's own text. REQUIRES: a turn is held.
void check_mpi(int code, std::string_view call);

// A communicator of our own, with errors returned: a duplicate. Collective.
class MpiComm {
 public:
  // `meanwhile` is called while ranks are missing; `late` makes the error after the deadline.
  struct Wait {
    std::function<void()> meanwhile;
    std::function<TimeoutError()> late;
  };
  // `handle` is a MPI_Comm*, or null for MPI_COMM_WORLD. Throws TimeoutError, BackendError.
  MpiComm(const void* handle, const base::Deadline& deadline, const Wait& wait = {});
  MpiComm(const MpiComm&) = delete;
  MpiComm& operator=(const MpiComm&) = delete;
  // Frees the communicator, unless `keep()` said that requests may still be pending in it.
  ~MpiComm();
  [[nodiscard]] MPI_Comm get() const noexcept { return comm_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  void keep() noexcept { keep_ = true; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  bool keep_ = false;
};

// Lets `request` finish. False when the deadline passed first. Throws BackendError, and what `while_waiting` throws.
[[nodiscard]] bool wait_mpi(MPI_Request& request, const base::Deadline& deadline,
                            const std::function<void()>& while_waiting = {});

}  // namespace kolo::cluster
