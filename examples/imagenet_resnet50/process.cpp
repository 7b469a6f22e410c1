#include "process.h"

#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <string_view>

namespace imagenet {

namespace {

// Whether this process may run on one core only (its affinity mask, which mpirun's binding sets).
bool on_one_core() {
  std::array<cpu_set_t, 16> sets{};  // of 1,024 cores each
  return sched_getaffinity(0, sizeof sets, sets.data()) == 0 && CPU_COUNT_S(sizeof sets, sets.data()) == 1;
}

}  // namespace

void prepare_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) < 0) (void)!::open("/dev/null", O_RDWR);  // gets the lowest free descriptor
  }
  std::signal(SIGPIPE, SIG_IGN);
}

void keep_freed_memory() {
  // A threshold above 32 MiB is refused, and activations are larger: so no block is ever mapped on its own.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
}

std::uint64_t minor_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_minflt);
}

std::string binding_warning(int ranks, int threads, int workers) {
  const long share = sysconf(_SC_NPROCESSORS_ONLN) / std::max(ranks, 1);
  if (!on_one_core() || share <= 1 || threads + workers <= 1) return {};
  return "this rank may use one core only, for " + std::to_string(threads) + " LibTorch and " +
         std::to_string(workers) +
         " loader threads: was it bound by its launcher? Pass --bind-to none to mpirun (--bind none to kolo run), "
         "or --map-by slot:PE=n";
}

bool stdout_is_terminal() {
  const char* const kind = std::getenv("TERM");
  if (isatty(STDOUT_FILENO) == 0 || kind == nullptr || std::string_view(kind) == "dumb") return false;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return true;
  // mpirun gives its ranks a pseudo-terminal without a size, wherever its own output goes: so that is what counts.
  const std::string launcher = "/proc/" + std::to_string(getppid()) + "/fd/1";
  char target[64] = {};
  if (readlink(launcher.c_str(), target, sizeof target - 1) < 0) return false;
  return std::string_view(target).starts_with("/dev/pts/") || std::string_view(target).starts_with("/dev/tty");
}

}  // namespace imagenet
