#include "cluster/mpi_runtime.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <string>
#include <utility>

#include "base/environment.h"
#include "base/hash.h"
#include "base/naps.h"
#include "cluster/abstract_name.h"
#include "cluster/descriptors.h"
#include "cluster/exit_limit.h"
#include "cluster/launcher.h"
#include "cluster/limits.h"
#include "cluster/mpi_exit.h"
#include "kolo/error.h"

namespace kolo::cluster {
namespace {

// The documented exception to "no globals": state of the process's one MPI.
struct Process {
  std::mutex initialising;
  std::mutex turn;
  std::atomic<bool> serialized{true};
  // Guarded by initialising. In a forked child `owner` is another process.
  pid_t owner = 0;
  base::UniqueFd rank_name;  // held from the first Context on: the process's rank
};

Process& process() {
  static Process* const the_one = new Process;  // never destroyed: used while the process exits
  return *the_one;
}

const char* level_name(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE:
      return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED:
      return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED:
      return "MPI_THREAD_SERIALIZED";
    default:
      return "MPI_THREAD_MULTIPLE";
  }
}

// Open MPI writes to connections whose other end may have died: without this the writer would die of it, too. A program
// that has a handler of its own keeps it.
void outlive_broken_connections() {
  struct sigaction now {};
  if (sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

// MPI waits for all ranks, without a deadline of its own.
int initialise(ExitLimit::Reminder reminder) {
  int level = MPI_THREAD_SINGLE;
  const auto longest = std::max(mpi_limit(), kBootstrapTimeout);
  const ExitLimit limit(longest, 1,
                        {"MPI_Init", "5 minutes", "a rank of the job has ended or was not started. This process exits"},
                        std::move(reminder));
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
    throw BackendError("MPI_Init_thread failed");
  }
  finalize_mpi_at_exit();
  if (level < MPI_THREAD_SERIALIZED) {
    throw UsageError(std::string("MPI supports ") + level_name(level) +
                     " only. Use an MPI library that is built with at least MPI_THREAD_SERIALIZED");
  }
  return level;
}

int level_of_user() {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_SERIALIZED) {
    throw UsageError(std::string("the program initialised MPI with ") + level_name(level) +
                     ", but kolo calls MPI from several threads. Call MPI_Init_thread(&argc, &argv, "
                     "MPI_THREAD_MULTIPLE, &level) (at least MPI_THREAD_SERIALIZED), or let kolo initialise MPI");
  }
  return level;
}

[[noreturn]] void refuse_rank(const std::string& subject) {
  std::string options;
  for (const std::string& name : launcher_variables(base::get_environment)) options += "-u " + name + " ";
  throw UsageError(subject +
                   " has started MPI. A rank can start MPI only once. To run another program in this rank, start it "
                   "without the launcher's variables: env " +
                   options + "PROGRAM");
}

// A second process of a rank would end in MPI_Init with Open MPI's internal errors, and a forked child would write to
// its parent's connections. Throws UsageError in both. REQUIRES: `initialising` is held.
void claim_rank(bool initialized) {
  if (process().owner == getpid()) return;
  if (process().owner != 0)
    refuse_rank("this process was forked from process " + std::to_string(process().owner) + ", which");
  const auto mine = launched_rank(base::get_environment);
  if (mine) {
    const std::string name = "kolo-rank-" + std::to_string(geteuid()) + "-" + std::to_string(base::hash64(mine->job)) +
                             "-" + std::to_string(mine->rank);
    process().rank_name = hold_name(name);
    if (!initialized && !process().rank_name && is_name_held(name)) {
      refuse_rank("this process has the launcher's variables of rank " + std::to_string(mine->rank) +
                  ", and another process of that rank");
    }
  }
  process().owner = getpid();
}

}  // namespace

void require_mpi(ExitLimit::Reminder reminder) {
  const std::lock_guard lock(process().initialising);
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) throw UsageError("MPI is finalised already and cannot be initialised again in this process");
  int initialized = 0;
  MPI_Initialized(&initialized);
  claim_rank(initialized != 0);
  outlive_broken_connections();
  const int level = initialized != 0 ? level_of_user() : initialise(std::move(reminder));
  process().serialized = level < MPI_THREAD_MULTIPLE;
}

bool mpi_usable() noexcept {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

MpiTurn::MpiTurn() {
  if (process().serialized.load(std::memory_order_relaxed)) lock_ = std::unique_lock(process().turn);
}

void check_mpi(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  const std::string trouble = descriptor_trouble();
  throw BackendError(std::string(call) + ": " + std::string(text.data(), static_cast<std::size_t>(length)) +
                     (trouble.empty() ? "" : " (" + trouble + ")"));
}

MpiComm::MpiComm(const void* handle, const base::Deadline& deadline, const Wait& wait) {
  const MPI_Comm original = handle != nullptr ? *static_cast<const MPI_Comm*>(handle) : MPI_COMM_WORLD;
  if (original == MPI_COMM_NULL) {
    throw UsageError(
        "the communicator is MPI_COMM_NULL: this rank is in no group. Only ranks of a group can create a Context");
  }
  MPI_Request request = MPI_REQUEST_NULL;
  {
    const MpiTurn turn;
    check_mpi(MPI_Comm_idup(original, &comm_, &request), "MPI_Comm_idup");
  }
  if (!wait_mpi(request, deadline, wait.meanwhile)) {
    if (wait.late) throw wait.late();
    throw TimeoutError({}, "MPI_Comm_idup: timeout: not all ranks have called it");
  }
  const MpiTurn turn;
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
}

MpiComm::~MpiComm() {
  if (keep_ || comm_ == MPI_COMM_NULL || !mpi_usable() || skips_mpi_finalize()) return;
  const MpiTurn turn;
  MPI_Comm_free(&comm_);
}

bool wait_mpi(MPI_Request& request, const base::Deadline& deadline, const std::function<void()>& while_waiting) {
  base::Naps naps;
  while (true) {
    int done = 0;
    {
      const MpiTurn turn;
      check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    }
    if (done != 0) return true;
    if (deadline.passed()) return false;
    if (while_waiting) while_waiting();
    naps.take();  // MPI makes progress in MPI_Test only: there is nothing to sleep on
  }
}

}  // namespace kolo::cluster
