#include "engine/coordinator.h"

#include <sys/prctl.h>

#include "base/start_thread.h"

namespace kolo::engine {

Coordinator::Coordinator(CoordinatorParts parts)
    : parts_(std::move(parts)), thread_(base::start_thread("the coordinator", [this] { run(); })) {}

Coordinator::~Coordinator() { stop(); }

// No wake-up is lost: the submitter makes its work visible before it reads parked_, and the thread sets parked_ before
// it looks for work a last time (both sequentially consistent).
void Coordinator::notify() {
  if (!parked_.load()) return;
  const std::scoped_lock lock(lock_);
  wake_.notify_one();
}

void Coordinator::stop() {
  stop_.store(true);
  {
    const std::scoped_lock lock(lock_);
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Coordinator::run() {
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);  // its naps are shorter than the 50 us that Linux adds to each
  while (!stop_.load()) {
    if (!park()) {
      parts_.heartbeat();
      continue;
    }
    if (!stop_.load() && parts_.pending()) parts_.drive(stop_);
  }
}

// False when it is time for a heartbeat.
bool Coordinator::park() {
  std::unique_lock lock(lock_);
  parked_.store(true);
  const auto woken = [this] { return stop_.load() || parts_.pending(); };
  if (!parts_.heartbeat) {
    wake_.wait(lock, woken);
  } else if (!wake_.wait_for(lock, parts_.interval, woken)) {
    parked_.store(false);
    return false;
  }
  parked_.store(false);
  parts_.counters->coordinator_wakeups.add();
  if (parts_.patience.count() > 0) wake_.wait_for(lock, parts_.patience, [this] { return stop_.load(); });
  return true;
}

}  // namespace kolo::engine
