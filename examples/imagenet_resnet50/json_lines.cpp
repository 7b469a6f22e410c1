#include "json_lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "kolo/error.h"
#include "kolo/json_text.h"

namespace imagenet {
namespace {

std::string errno_text() { return std::generic_category().message(errno); }

// Of a regular file; -1 for pipes and devices.
off_t size_of(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) ? status.st_size : -1;
}

// The bytes after the last newline.
std::string last_piece(int fd, off_t size) {
  constexpr off_t kBlock = 65536;
  std::string piece;
  while (size > 0) {
    std::string block(static_cast<std::size_t>(std::min(size, kBlock)), '\0');
    size -= static_cast<off_t>(block.size());
    const ssize_t got = ::pread(fd, block.data(), block.size(), size);
    if (got != static_cast<ssize_t>(block.size())) throw kolo::BackendError("cannot be read: " + errno_text());
    const auto newline = block.rfind('\n');
    if (newline != std::string::npos) return block.substr(newline + 1) + piece;
    piece.insert(0, block);
  }
  return piece;
}

}  // namespace

JsonLines::JsonLines(const std::string& path, bool append) : path_(path), keep_(append) {
  // Reading is for the torn piece. A pipe or a terminal may refuse it, and has none.
  const int flags = O_CREAT | O_APPEND | O_CLOEXEC;
  struct stat status {};
  const bool special = ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  fd_ = ::open(path.c_str(), flags | (special ? O_WRONLY : O_RDWR), 0666);
  if (fd_ < 0) throw kolo::UsageError("--json: '" + path + "' cannot be written: " + errno_text());
  try {
    if (append) cut_torn_piece();
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

JsonLines::~JsonLines() { ::close(fd_); }

void JsonLines::cut_torn_piece() {
  const off_t size = size_of(fd_);
  if (size <= 0) return;
  try {
    const std::string piece = last_piece(fd_, size);
    if (piece.empty()) return;
    // A line that lacks only its newline is kept.
    const bool whole = nlohmann::json::accept(piece);
    const bool done =
        whole ? ::write(fd_, "\n", 1) == 1 : ::ftruncate(fd_, size - static_cast<off_t>(piece.size())) == 0;
    if (!done) throw kolo::BackendError("its torn last line cannot be cut off: " + errno_text());
  } catch (const kolo::BackendError& error) {
    throw kolo::UsageError("--json: '" + path_ + "': " + error.what());
  }
}

std::string JsonLines::write(const nlohmann::ordered_json& line) {
  const std::string text = kolo::json_text(line) + '\n';
  if (!keep_ && size_of(fd_) > 0) (void)!::ftruncate(fd_, 0);
  keep_ = true;
  const off_t before = size_of(fd_);
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(fd_, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const std::string reason = errno_text();
      if (done > 0 && before >= 0) (void)!::ftruncate(fd_, before);
      return reason;
    }
    done += static_cast<std::size_t>(written);
  }
  return {};
}

}  // namespace imagenet
