#include "cluster/mpi_exit.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "cluster/exit_limit.h"
#include "cluster/mpi_runtime.h"
#include "kolo/error.h"

namespace kolo::cluster {
namespace {

using std::chrono::milliseconds;

// A healthy job's ranks may be this far apart at the end, whatever limit is asked for.
constexpr milliseconds kLeastLimit{2000};
constexpr milliseconds kLargestLimit = std::chrono::hours(24 * 365);  // no overflow

// As MPI itself, one for the process.
struct Exit {
  const pid_t process = getpid();
  std::atomic<bool> skip{false};
  std::atomic<bool> failed{false};
  std::atomic<bool> failed_start{false};
  std::atomic<milliseconds> limit{kLeastLimit};
  std::mutex lock;
  std::map<int, std::function<void()>> open_groups;  // guarded by lock; how each is left
  int groups_opened = 0;                             // guarded by lock
};

Exit& state() {
  static Exit* const the_one = new Exit;  // never destroyed: used while the process exits
  return *the_one;
}

bool within_a_group() {
  const std::lock_guard lock(state().lock);
  return !state().open_groups.empty();
}

// The newest first, as they would be destroyed.
void leave_open_groups() noexcept {
  for (;;) {
    std::function<void()> leave;
    {
      const std::lock_guard lock(state().lock);
      if (state().open_groups.empty()) return;
      leave = std::move(std::prev(state().open_groups.end())->second);
      state().open_groups.erase(std::prev(state().open_groups.end()));
    }
    leave();
  }
}

// A forked child has nothing to finalise.
void finalize(int status, void* /*unused*/) noexcept {
  if (getpid() != state().process || !mpi_usable()) return;
  if (status == 0) leave_open_groups();
  if (state().skip || (status != 0 && (within_a_group() || state().failed_start))) return;
  std::optional<ExitLimit> limit;
  if (status != 0 || state().failed || state().failed_start) {
    try {
      const std::string why = "a rank of the job did not call it. This process exits with status ";
      limit.emplace(state().limit.load(), status,
                    ExitLimit::Words{"MPI_Finalize", "2 s", why + std::to_string(status)});
    } catch (const BackendError&) {  // no thread: rather no MPI_Finalize than one for ever
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
int note_open_group(std::function<void()> leave) {
  const std::lock_guard lock(state().lock);
  state().open_groups.emplace(state().groups_opened, std::move(leave));
  return state().groups_opened++;
}
void note_closed_group(int group) noexcept {
  const std::lock_guard lock(state().lock);
  state().open_groups.erase(group);
}
void note_failed_start(bool failed) noexcept { state().failed_start = failed; }
void note_orderly_end(int ranks) noexcept {
  if (ranks == world_size()) state().failed = false;
}
bool skips_mpi_finalize() noexcept { return state().skip; }
std::chrono::milliseconds mpi_limit() noexcept { return state().limit; }

void finalize_mpi_at_exit() {
  static_cast<void>(state());  // of this process, not of a child
  on_exit(finalize, nullptr);
}

}  // namespace kolo::cluster
