#include "run_output.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <stdexcept>

namespace kolo::tools {
namespace {

// A terminal is writable with room for one byte, and waits for room for the rest. Opened once more it need not wait,
// and the shell, who shares the first opening, is not affected. The other end of a terminal cannot be opened twice.
base::UniqueFd open_terminal(int descriptor) {
  char name[128];
  if (::isatty(descriptor) != 1 || ::ptsname_r(descriptor, name, sizeof name) == 0) return {};
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  return base::UniqueFd(::open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
}

}  // namespace

void open_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    // The lowest number that is free, which is this one: those below are open by now.
    if (::open("/dev/null", descriptor == STDIN_FILENO ? O_RDONLY : O_WRONLY) != descriptor) {
      throw std::runtime_error(std::string("/dev/null: ") + std::strerror(errno));
    }
  }
}

Output::Output(int descriptor) : own_(open_terminal(descriptor)), descriptor_(own_ ? own_.get() : descriptor) {}

void Output::add(std::string text, Written written) { pieces_.push_back({std::move(text), written}); }

// True when the first piece is done with. A descriptor that is not our own is shared with others: it is left as it is,
// and what poll() calls writable takes PIPE_BUF bytes without blocking, of a pipe.
bool Output::write_front() {
  const std::string& text = pieces_.front().text;
  while (error_ == 0 && offset_ < text.size()) {
    pollfd ready{descriptor_, POLLOUT, 0};
    if (::poll(&ready, 1, 0) <= 0) return false;
    const ssize_t gone =
        ::write(descriptor_, text.data() + offset_, std::min<std::size_t>(PIPE_BUF, text.size() - offset_));
    if (gone < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (gone < 0) {
      error_ = errno;
    } else {
      offset_ += static_cast<std::size_t>(gone);
    }
  }
  offset_ = 0;
  return true;
}

std::deque<Output::Written> Output::write_some() {
  std::deque<Written> done;
  while (!pieces_.empty() && write_front()) {
    done.push_back(pieces_.front().written);
    pieces_.pop_front();
  }
  return done;
}

}  // namespace kolo::tools
