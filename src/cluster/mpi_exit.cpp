#include "cluster/mpi_exit.h"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>

#include "cluster/mpi_runtime.h"

namespace kolo::cluster {
namespace {

// As MPI itself, one for the process.
struct Exit {
  std::atomic<bool> skip{false};
  std::atomic<bool> failed{false};
  std::atomic<std::chrono::milliseconds> limit{std::chrono::minutes(10)};
};

Exit& state() {
  static Exit* const the_one = new Exit;  // never destroyed: used while the process exits
  return *the_one;
}

// Ends the process, which is exiting, where it does not get past what is done while this lives.
class ExitLimit {
 public:
  ExitLimit(std::chrono::milliseconds limit, int status) : thread_([this, limit, status] { watch(limit, status); }) {}
  ExitLimit(const ExitLimit&) = delete;
  ~ExitLimit() {
    {
      const std::lock_guard lock(lock_);
      over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

 private:
  void watch(std::chrono::milliseconds limit, int status) {
    std::unique_lock lock(lock_);
    if (changed_.wait_for(lock, limit, [this] { return over_; })) return;
    std::fflush(nullptr);
    _exit(status);
  }

  std::mutex lock_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

void finalize(int status, void* /*unused*/) {
  if (state().skip || !mpi_usable()) return;
  std::optional<ExitLimit> limit;
  if (status != 0 || state().failed) limit.emplace(state().limit.load(), status);
  MPI_Finalize();
}

}  // namespace

void skip_mpi_finalize() noexcept { state().skip = true; }
void limit_mpi_finalize(std::chrono::milliseconds limit) noexcept { state().limit = limit; }
void note_failed_group() noexcept { state().failed = true; }
bool skips_mpi_finalize() noexcept { return state().skip; }

void finalize_mpi_at_exit() { on_exit(finalize, nullptr); }

}  // namespace kolo::cluster
