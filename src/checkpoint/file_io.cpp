#include "file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "kolo/checkpoint.h"
#include "kolo/error.h"

namespace kolo::checkpoint {
namespace {

constexpr int kTemporaryNames = 10'000;
constexpr std::size_t kFlushBytes = 8 << 20;

fs::path folder_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

std::string numbered(std::string_view prefix, int number) {
  return std::string(prefix) + std::to_string(::getpid()) + "-" + std::to_string(number);
}

}  // namespace

void throw_errno(std::string_view doing, const fs::path& path) {
  const std::string reason = std::generic_category().message(errno);
  throw BackendError("cannot " + std::string(doing) + " " + path.string() + ": " + reason);
}

AtomicFile::AtomicFile(fs::path target) : target_(std::move(target)) {
  if (!target_.has_filename()) throw UsageError("cannot write '" + target_.string() + "': the path has no file name");
  const std::string prefix = "." + target_.filename().string() + ".tmp-";
  for (int number = 0; number < kTemporaryNames; ++number) {
    fs::path path = folder_of(target_) / numbered(prefix, number);
    fd_.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (fd_) {
      temporary_ = std::move(path);
      return;
    }
    if (errno != EEXIST) throw_errno("create", path);
  }
  throw BackendError("cannot create a temporary file beside " + target_.string() +
                     ": too many temporary files exist. Remove them");
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), std::min(bytes.size(), kFlushBytes));
    if (written < 0) {
      if (errno == EINTR) continue;
      throw_errno("write", temporary_);
    }
    const auto count = static_cast<std::size_t>(written);
    hash_.add(bytes.first(count));
    size_ += count;
    bytes = bytes.subspan(count);
    if (size_ - flushed_ < kFlushBytes) continue;
    // Advice: file systems that cannot follow it write in fsync.
    (void)::sync_file_range(fd_.get(), static_cast<off64_t>(flushed_), static_cast<off64_t>(size_ - flushed_),
                            SYNC_FILE_RANGE_WRITE);
    flushed_ = size_;
  }
}

WrittenFile AtomicFile::commit() {
  if (::fsync(fd_.get()) != 0) throw_errno("flush", temporary_);
  // Closed by hand: a network file system may report a failed write only here.
  if (::close(fd_.release()) != 0) throw_errno("close", temporary_);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) throw_errno("rename " + temporary_.string() + " to", target_);
  temporary_.clear();
  sync_to_disk(folder_of(target_));
  return {target_.filename().string(), size_, hash_.value()};
}

void sync_to_disk(const fs::path& path) {
  base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) throw_errno("open", path);
  // Some file systems cannot flush a folder and say EINVAL: there is nothing more to be done on those.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) throw_errno("flush", path);
}

fs::path make_temporary_folder(const fs::path& parent, std::string_view prefix) {
  for (int number = 0; number < kTemporaryNames; ++number) {
    fs::path path = parent / numbered(prefix, number);
    if (::mkdir(path.c_str(), 0777) == 0) return path;
    if (errno != EEXIST) throw_errno("create", path);
  }
  throw BackendError("cannot create a temporary folder in " + parent.string() +
                     ": too many temporary folders exist. Remove them");
}

WrittenFile write_file(const fs::path& file, std::span<const std::byte> content) {
  AtomicFile atomic(file);
  atomic.append(content);
  return atomic.commit();
}

WrittenFile write_file(const fs::path& file, std::string_view content) {
  return write_file(file, std::as_bytes(std::span(content.data(), content.size())));
}

std::vector<std::byte> read_file(const fs::path& file) {
  base::UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) throw_errno("open", file);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) throw_errno("examine", file);
  if (!S_ISREG(status.st_mode)) throw BackendError("cannot read " + file.string() + ": not a regular file");
  std::vector<std::byte> content(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t got = ::read(fd.get(), content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("read", file);
    if (got == 0) throw BackendError("cannot read " + file.string() + ": the file became shorter during the read");
    done += static_cast<std::size_t>(got);
  }
  return content;
}

}  // namespace kolo::checkpoint
