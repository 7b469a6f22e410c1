#include "run_output.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace kolo::tools {

void Output::add(std::string text, Written written) { pieces_.push_back({std::move(text), written}); }

// True when the first piece is done with. The descriptor may be shared with others (a terminal with the shell): it is
// left as it is, and what poll() calls writable takes PIPE_BUF bytes without blocking.
bool Output::write_front() {
  const std::string& text = pieces_.front().text;
  while (!broken_ && offset_ < text.size()) {
    pollfd ready{descriptor_, POLLOUT, 0};
    if (::poll(&ready, 1, 0) <= 0) return false;
    const ssize_t gone =
        ::write(descriptor_, text.data() + offset_, std::min<std::size_t>(PIPE_BUF, text.size() - offset_));
    if (gone < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (gone < 0) {
      broken_ = true;
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
