#include "cluster/exit_limit.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <future>
#include <memory>
#include <system_error>
#include <utility>

#include "base/deadline.h"
#include "base/start_thread.h"
#include "cluster/stall_warning.h"

namespace kolo::cluster {
namespace {

constexpr std::chrono::milliseconds kFlushLimit{1000};

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

}  // namespace

ExitLimit::ExitLimit(std::chrono::milliseconds limit, int status, const Words& words, Reminder reminder)
    : line_("kolo: process " + std::to_string(getpid()) + ": " + words.call + " did not return within " +
            std::to_string(limit.count()) + " ms (KOLO_TIMEOUT, at least " + words.at_least + "): " + words.why + "\n"),
      reminder_(std::move(reminder)),
      thread_(base::start_thread("a limit of MPI", [this, limit, status] { watch(limit, status); })) {}

ExitLimit::~ExitLimit() {
  {
    const std::lock_guard lock(lock_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

// False when the limit has passed.
bool ExitLimit::wait(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds limit) {
  const base::Deadline deadline(limit);
  StallClock stall(reminder_.interval);
  const auto slice = reminder_.interval.count() > 0 ? std::min(reminder_.interval, limit) : limit;
  while (!deadline.passed()) {
    if (changed_.wait_for(lock, std::min<std::chrono::nanoseconds>(slice, deadline.left()), [this] { return over_; }))
      return true;
    const auto waited = stall.take();
    if (waited.count() == 0) continue;
    lock.unlock();
    reminder_.call(waited);
    lock.lock();
  }
  return over_;
}

void ExitLimit::watch(std::chrono::milliseconds limit, int status) noexcept {
  std::unique_lock lock(lock_);
  if (wait(lock, limit)) return;
  lock.unlock();
  static_cast<void>(!write(STDERR_FILENO, line_.data(), line_.size()));
  try {
    flush_if_possible();
  } catch (const std::system_error&) {  // no thread for it
  }
  _exit(status);
}

}  // namespace kolo::cluster
