#include "cluster/exit_limit.h"

#include <unistd.h>

#include <cstdio>
#include <future>
#include <memory>
#include <system_error>

#include "base/start_thread.h"

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

ExitLimit::ExitLimit(std::chrono::milliseconds limit, int status, const Words& words)
    : line_("kolo: process " + std::to_string(getpid()) + ": " + words.call + " has not come back within " +
            std::to_string(limit.count()) + " ms (KOLO_TIMEOUT, and at least " + words.at_least + "): " + words.why +
            "\n"),
      thread_(base::start_thread("a limit of MPI", [this, limit, status] { watch(limit, status); })) {}

ExitLimit::~ExitLimit() {
  {
    const std::lock_guard lock(lock_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ExitLimit::watch(std::chrono::milliseconds limit, int status) noexcept {
  std::unique_lock lock(lock_);
  if (changed_.wait_for(lock, limit, [this] { return over_; })) return;
  lock.unlock();
  static_cast<void>(!write(STDERR_FILENO, line_.data(), line_.size()));
  try {
    flush_if_possible();
  } catch (const std::system_error&) {  // no thread for it
  }
  _exit(status);
}

}  // namespace kolo::cluster
