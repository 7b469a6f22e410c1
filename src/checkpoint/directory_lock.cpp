// lock.json is created with O_EXCL, so exactly one process creates it. An abandoned lock is replaced by a rename.
// Before the rename the process locks the old file with flock() and verifies that the name still refers to that file.
// If two processes find the same abandoned lock, the second therefore finds the new lock of the first.
#include "directory_lock.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/host_name.h"
#include "base/start_thread.h"
#include "checkpoint/json_text.h"
#include "file_io.h"
#include "kolo/checkpoint.h"
#include "kolo/error.h"

namespace kolo::checkpoint {
namespace {

using nlohmann::json;

constexpr int kHeartbeatSeconds = 10;
constexpr std::int64_t kAbandonedSeconds = 60;
constexpr int kTries = 200;  // 4 seconds
constexpr int kTriesForContent = 25;
constexpr std::chrono::milliseconds kPause{20};

struct Process {
  char state = '?';
  std::int64_t start_ticks = 0;
};

// Nothing, if the kernel shows no such process.
std::optional<Process> process_of(pid_t number) {
  std::ifstream file("/proc/" + std::to_string(number) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  // "4711 (name) S ...": the name may hold blanks and parentheses. The 22nd field is the start.
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  Process process;
  fields >> process.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  fields >> process.start_ticks;
  if (!fields) return std::nullopt;
  return process;
}

std::string utc(std::time_t time) {
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text.data();
}

// With the time that the host was suspended.
std::int64_t seconds_since_boot() {
  std::timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec;
}

LockOwner this_process() {
  LockOwner self{base::host_name(), base::host_key(), ::getpid(), 0, ""};
  if (const auto process = process_of(self.process)) self.start_ticks = process->start_ticks;
  self.start_time = utc(std::time(nullptr) - seconds_since_boot() + self.start_ticks / ::sysconf(_SC_CLK_TCK));
  return self;
}

bool has_ended(const LockOwner& owner) {
  const auto process = process_of(owner.process);
  if (!process) return ::kill(owner.process, 0) != 0 && errno == ESRCH;  // /proc may hide processes of other users
  return process->start_ticks != owner.start_ticks || process->state == 'Z' || process->state == 'X';
}

std::string to_text(const LockOwner& owner) {
  return json_text(json{{"host", owner.host},
                        {"host_key", owner.host_key},
                        {"process", owner.process},
                        {"start_ticks", owner.start_ticks},
                        {"start_time", owner.start_time}}) +
         "\n";
}

// Nothing for a text that is not complete.
std::optional<LockOwner> parse(const std::string& text) {
  try {
    const json document = json::parse(text);
    return LockOwner{document.at("host").get<std::string>(), document.at("host_key").get<std::string>(),
                     document.at("process").get<pid_t>(), document.at("start_ticks").get<std::int64_t>(),
                     document.at("start_time").get<std::string>()};
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

std::string words(const std::optional<LockOwner>& owner) {
  if (!owner) return "an unknown process (lock.json is incomplete)";
  return "process " + std::to_string(owner->process) + " on host " + owner->host + " (started " + owner->start_time +
         ")";
}

std::string content_of(int fd) {
  std::array<char, 4096> buffer{};
  const ssize_t size = ::pread(fd, buffer.data(), buffer.size(), 0);
  return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

std::string content_of(const fs::path& file) {
  const base::UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  return fd ? content_of(fd.get()) : "";
}

bool is_same_file(int fd, const fs::path& file) {
  struct stat open {
  }, named{};
  return ::fstat(fd, &open) == 0 && ::stat(file.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

// Since the last heartbeat. Both times are of the file system's clock, which all hosts share.
std::int64_t silent_seconds(int lock, const fs::path& file) {
  const AtomicFile probe(file);
  struct stat now {
  }, then{};
  if (::fstat(probe.descriptor(), &now) != 0) throw_errno("examine", file);
  if (::fstat(lock, &then) != 0) throw_errno("examine", file);
  return std::max<std::int64_t>(0, now.st_mtim.tv_sec - then.st_mtim.tv_sec);
}

}  // namespace

DirectoryLock::DirectoryLock(const fs::path& root, std::chrono::seconds wait)
    : file_(root / kLockName), text_(to_text(this_process())), wait_(wait), process_(::getpid()) {
  for (int tries = 1; !create() && !take_over_if_abandoned(tries < kTriesForContent); ++tries) {
    if (tries > kTries && wait_.passed()) {
      throw BackendError("cannot lock " + file_.string() +
                         ": other processes try to lock it at the same time. Try again");
    }
    std::this_thread::sleep_for(kPause);
  }
  try {
    start_heartbeat();
  } catch (...) {
    ::unlink(file_.c_str());
    throw;
  }
}

DirectoryLock::~DirectoryLock() {
  if (::getpid() != process_) {
    heartbeat_.detach();  // the parent's
    return;
  }
  ::eventfd_write(stop_.get(), 1);
  heartbeat_.join();
  if (content_of(file_) == text_) ::unlink(file_.c_str());
}

// False: there is a lock.
bool DirectoryLock::create() {
  base::UniqueFd fd(::open(file_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd) {
    if (errno == EEXIST) return false;
    throw_errno("create", file_);
  }
  const ssize_t written = ::write(fd.get(), text_.data(), text_.size());
  if (written != static_cast<ssize_t>(text_.size())) {
    if (written >= 0) errno = ENOSPC;
    const int reason = errno;
    ::unlink(file_.c_str());
    errno = reason;
    throw_errno("write", file_);
  }
  fd_ = std::move(fd);
  return true;
}

// False: the lock has changed, or another process examines it, or it has no content yet. UsageError: its owner lives.
bool DirectoryLock::take_over_if_abandoned(bool wait_for_content) {
  base::UniqueFd old(::open(file_.c_str(), O_RDWR | O_CLOEXEC));
  if (!old && errno == EACCES) old.reset(::open(file_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!old) {
    if (errno == ENOENT) return false;
    throw_errno("open", file_);
  }
  if (::flock(old.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  if (!is_same_file(old.get(), file_)) return false;
  const auto owner = parse(content_of(old.get()));
  if (!owner && wait_for_content) return false;

  const bool here = owner && owner->host_key == base::host_key();
  const std::int64_t silent = here ? 0 : silent_seconds(old.get(), file_);
  if (!here && silent < kAbandonedSeconds && wait_for_heartbeat(silent)) return false;
  if (here ? !has_ended(*owner) : silent < kAbandonedSeconds) {
    throw UsageError("checkpoint directory " + file_.parent_path().string() + " is in use by " + words(owner) +
                     (here ? "" : ", last heartbeat " + std::to_string(silent) + " s ago") +
                     ". Use another directory, or end that process" +
                     (here ? "" : " and wait for " + std::to_string(kAbandonedSeconds) + " s"));
  }
  write_file(file_, text_);
  fd_.reset(::open(file_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd_ || content_of(fd_.get()) != text_) return false;
  notice_ = "took over the lock of checkpoint directory " + file_.parent_path().string() + " from " + words(owner) +
            (here ? ", which has ended" : ", no heartbeat for " + std::to_string(silent) + " s");
  return true;
}

// False: the owner has sent one, or the time to wait is over.
bool DirectoryLock::wait_for_heartbeat(std::int64_t silent) {
  const bool alive = silent < last_silent_;
  last_silent_ = silent;
  if (alive || wait_.passed()) return false;
  std::this_thread::sleep_for(std::chrono::seconds(1));
  return true;
}

void DirectoryLock::start_heartbeat() {
  stop_.reset(::eventfd(0, EFD_CLOEXEC));
  if (!stop_) throw_errno("create an event for", file_);
  last_heartbeat_ = seconds_since_boot();
  heartbeat_ = base::start_thread("the heartbeat of a checkpoint directory", [this, lock = fd_.get()] {
    pollfd entry{stop_.get(), POLLIN, 0};
    while (::poll(&entry, 1, kHeartbeatSeconds * 1000) <= 0) {
      if (is_silent()) was_silent_ = true;
      // The descriptor, not the name: the name may be another owner's by now.
      ::futimens(lock, nullptr);
      last_heartbeat_ = seconds_since_boot();
    }
  });
}

bool DirectoryLock::is_silent() const { return seconds_since_boot() - last_heartbeat_ >= kAbandonedSeconds; }

void DirectoryLock::require_held() {
  if (!fs::exists(file_)) {
    if (was_silent_ || is_silent()) {
      throw BackendError("checkpoint directory " + file_.parent_path().string() + ": this process was stopped for " +
                         std::to_string(kAbandonedSeconds) + " s, so another job may have used the directory. " +
                         "The checkpoint is not written. Resume from the newest checkpoint");
    }
    write_file(file_, text_);
    const base::UniqueFd fd(::open(file_.c_str(), O_RDONLY | O_CLOEXEC));
    // The heartbeat's descriptor keeps its number.
    if (!fd || ::dup3(fd.get(), fd_.get(), O_CLOEXEC) < 0) throw_errno("open", file_);
  }
  const std::vector<std::byte> content = read_file(file_);
  const std::string now(reinterpret_cast<const char*>(content.data()), content.size());
  if (now == text_) return;
  throw BackendError("checkpoint directory " + file_.parent_path().string() + " is now locked by " + words(parse(now)) +
                     "; the checkpoint is not written. Was lock.json deleted, or was this process stopped for " +
                     std::to_string(kAbandonedSeconds) + " s? End one of the two jobs");
}

}  // namespace kolo::checkpoint
