#pragma once
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/deadline.h"
#include "base/unique_fd.h"

namespace kolo::checkpoint {

inline constexpr std::string_view kLockName = "lock.json";

// The process that lock.json names.
struct LockOwner {
  std::string host;      // for messages
  std::string host_key;  // equal only for processes that see each other's process numbers
  pid_t process = 0;
  std::int64_t start_ticks = 0;  // since the host has started: tells processes of one number apart
  std::string start_time;        // UTC, for messages
};

// The right to write into a checkpoint directory: the file lock.json in it. A thread touches the file every 10 seconds.
// A lock is taken over if its process on this host has ended, or if the process is on another host and has not touched
// the file for 60 seconds by the clock of the file system.
class DirectoryLock {
 public:
  // UsageError naming the owner, if another holder of the lock lives. BackendError if the file cannot be written.
  // `wait`: for an owner on another host that may have ended; until it sends a heartbeat.
  explicit DirectoryLock(const std::filesystem::path& root, std::chrono::seconds wait = std::chrono::seconds(0));
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  // Names the previous owner and the reason if the lock was taken over; empty if the directory was not locked.
  [[nodiscard]] const std::string& notice() const noexcept { return notice_; }
  // BackendError if another process has taken over the lock, or may have held it meanwhile because this process was
  // stopped. Restores a file that was deleted.
  void require_held();

 private:
  bool create();
  bool take_over_if_abandoned(bool wait_for_content);
  [[nodiscard]] bool wait_for_heartbeat(std::int64_t silent);
  void start_heartbeat();
  // No heartbeat for so long that another host may have taken over the lock.
  [[nodiscard]] bool is_silent() const;

  std::filesystem::path file_;
  std::string text_;  // content of the file while this process holds the lock
  std::string notice_;
  base::Deadline wait_;           // for an owner on another host
  std::int64_t last_silent_ = 0;  // seconds since that owner's heartbeat
  pid_t process_;                 // a forked child leaves the lock to its parent
  base::UniqueFd fd_;
  base::UniqueFd stop_;
  std::atomic<std::int64_t> last_heartbeat_ = 0;  // seconds since boot
  std::atomic<bool> was_silent_ = false;
  std::thread heartbeat_;
};

}  // namespace kolo::checkpoint
