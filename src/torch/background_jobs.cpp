#include "torch/background_jobs.h"

#include <sys/resource.h>

#include <utility>

#include "base/start_thread.h"

namespace kolo {
namespace {

constexpr int kNice = 10;  // threads that train go first

}  // namespace

BackgroundJobs::~BackgroundJobs() {
  if (!thread_.joinable()) return;
  const bool ended = wait(limit_);
  {
    const std::scoped_lock lock(queue_->mutex);
    queue_->ends = true;
  }
  queue_->changed.notify_all();
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void BackgroundJobs::post(std::function<void()> job) {
  if (!thread_.joinable()) {
    thread_ = base::start_thread("checkpoints", [queue = queue_] { run(*queue); });
  }
  {
    const std::scoped_lock lock(queue_->mutex);
    queue_->jobs.push_back(std::move(job));
  }
  queue_->changed.notify_all();
}

bool BackgroundJobs::wait(std::chrono::milliseconds time) {
  std::unique_lock lock(queue_->mutex);
  return queue_->changed.wait_for(lock, time, [this] { return queue_->jobs.empty(); });
}

void BackgroundJobs::run(Queue& queue) {
  // Of this thread only, in Linux. Without it, jobs just take more from the other threads.
  (void)::setpriority(PRIO_PROCESS, 0, kNice);
  std::unique_lock lock(queue.mutex);
  for (;;) {
    queue.changed.wait(lock, [&] { return queue.ends || !queue.jobs.empty(); });
    if (queue.jobs.empty() || queue.ends) return;
    const std::function<void()> job = queue.jobs.front();
    lock.unlock();
    job();
    lock.lock();
    queue.jobs.pop_front();
    queue.changed.notify_all();
  }
}

}  // namespace kolo
