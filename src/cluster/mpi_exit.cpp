#include "cluster/mpi_exit.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "cluster/mpi_runtime.h"

namespace kolo::cluster {
namespace {

using std::chrono::milliseconds;

// A healthy job's ranks may be this far apart at the end, whatever limit is asked for.
constexpr milliseconds kLeastLimit{2000};
constexpr milliseconds kLargestLimit = std::chrono::hours(24 * 365);  // no overflow
constexpr milliseconds kFlushLimit{1000};

// As MPI itself, one for the process.
struct Exit {
  const pid_t process = getpid();
  std::atomic<bool> skip{false};
  std::atomic<bool> failed{false};
  std::atomic<milliseconds> limit{kLeastLimit};
};

Exit& state() {
  static Exit* const the_one = new Exit;  // never destroyed: used while the process exits
  return *the_one;
}

// What is buffered goes out, unless whoever reads it, or another thread that holds a stream, keeps it from that.
void flush_if_possible() {
  const auto flushed = std::make_shared<std::promise<void>>();
  std::future<void> done = flushed->get_future();
  std::thread([flushed] {
    std::fflush(nullptr);
    flushed->set_value();
  }).detach();
  done.wait_for(kFlushLimit);
}

// Ends the process, which is exiting, where it does not get past what is done while this lives.
class ExitLimit {
 public:
  ExitLimit(milliseconds limit, int status) : thread_([this, limit, status] { watch(limit, status); }) {}
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
  void watch(milliseconds limit, int status) noexcept {
    std::unique_lock lock(lock_);
    if (changed_.wait_for(lock, limit, [this] { return over_; })) return;
    lock.unlock();
    try {
      flush_if_possible();
    } catch (const std::system_error&) {  // no thread for it
    }
    _exit(status);
  }

  std::mutex lock_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

// A forked child has nothing to finalise.
void finalize(int status, void* /*unused*/) noexcept {
  if (state().skip || getpid() != state().process || !mpi_usable()) return;
  std::optional<ExitLimit> limit;
  if (status != 0 || state().failed) {
    try {
      limit.emplace(state().limit.load(), status);
    } catch (const std::system_error&) {  // no thread: rather no MPI_Finalize than one for ever
      return;
    }
  }
  MPI_Finalize();
}

int world_size() {
  int size = 0;
  if (mpi_usable()) MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

}  // namespace

void skip_mpi_finalize() noexcept { state().skip = true; }
void limit_mpi_finalize(milliseconds limit) noexcept {
  limit = std::min(limit, kLargestLimit);
  milliseconds most = state().limit;
  while (most < limit && !state().limit.compare_exchange_weak(most, limit)) {
  }
}
void note_failed_group() noexcept { state().failed = true; }
void note_orderly_end(int ranks) noexcept {
  if (ranks == world_size()) state().failed = false;
}
bool skips_mpi_finalize() noexcept { return state().skip; }

void finalize_mpi_at_exit() {
  static_cast<void>(state());  // of this process, not of a child
  on_exit(finalize, nullptr);
}

}  // namespace kolo::cluster
