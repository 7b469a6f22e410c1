#include "engine/coordinator.h"

namespace kolo::engine {

Coordinator::Coordinator(CoordinatorParts parts) : parts_(std::move(parts)), thread_([this] { run(); }) {}

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
  while (!stop_.load()) {
    {
      std::unique_lock lock(lock_);
      parked_.store(true);
      wake_.wait(lock, [this] { return stop_.load() || parts_.pending(); });
      parked_.store(false);
      parts_.counters->coordinator_wakeups.add();
      if (parts_.patience.count() > 0) wake_.wait_for(lock, parts_.patience, [this] { return stop_.load(); });
    }
    if (!stop_.load() && parts_.pending()) parts_.drive(stop_);
  }
}

}  // namespace kolo::engine
