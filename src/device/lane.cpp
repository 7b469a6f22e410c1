#include "device/lane.h"

#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "base/deadline.h"
#include "base/keep_for_good.h"
#include "cuda/memory.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"

namespace kolo::device {

Lane::Lane(LaneParts parts)
    : parts_(std::move(parts)),
      stream_(parts_.runtime, parts_.device, parts_.priority),
      events_(parts_.runtime, parts_.device) {
  if (route() != Route::shares_by_hosts) return;
  copies_.emplace(parts_.runtime, parts_.device);
}

Lane::~Lane() {
  settle();
  if (idle()) return;
  give_up();  // it may wait for ranks that are gone
  const base::Deadline deadline(std::chrono::seconds(2));
  while (!idle() && !deadline.passed()) {
    settle();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  if (!idle()) base::keep_for_good(std::move(retired_));
}

void Lane::adopt_thread() const noexcept {
  const cuda::RuntimeApi& api = runtime()->api();
  int current = 0;
  const bool known = api.get_device(&current) == cuda::kSuccess;
  if (!known || (current != device() && api.set_device(device()) != cuda::kSuccess)) api.take_last_error();
}

std::unique_ptr<RegisteredBuffer> Lane::allocate(std::size_t bytes, std::chrono::milliseconds timeout) {
  const auto ask = [&] { return std::move(communicator().allocate({&bytes, 1}, timeout).front()); };
  wait_for_collectives(timeout);
  try {
    return ask();
  } catch (const cuda::NoDeviceMemory&) {
    release_cached();
  }
  return ask();
}

// Whoever does not get all of it frees the rest; and freeing waits for the device without a deadline, while collectives
// end only if no rank is lost.
void Lane::wait_for_collectives(std::chrono::milliseconds timeout) {
  const base::Deadline deadline(timeout);
  for (watch(); !in_flight_.empty(); watch()) {
    if (deadline.passed()) {
      throw TimeoutError({}, "allocation of device memory: collectives on this rank's device are not complete after " +
                                 std::to_string(timeout.count()) + " ms");
    }
    communicator().wait_for_activity(std::chrono::microseconds(100));
  }
}

void Lane::release_cached() {
  const std::scoped_lock lock(reducers_lock_);
  for (const auto& [reducer, release] : reducers_) {
    if (release) release();
  }
}

void Lane::add_reducer(const void* reducer, std::function<void()> release) {
  const std::scoped_lock lock(reducers_lock_);
  reducers_[reducer] = std::move(release);
}

void Lane::remove_reducer(const void* reducer) noexcept {
  const std::scoped_lock lock(reducers_lock_);
  reducers_.erase(reducer);
}

bool Lane::has_one_reducer() const noexcept {
  const std::scoped_lock lock(reducers_lock_);
  return reducers_.size() <= 1;
}

void Lane::order_after(Stream earlier) { events_.order(stream(), earlier); }

void Lane::order_before(Stream later) noexcept {
  try {
    events_.order(later, stream());
  } catch (const std::exception&) {
  }
}

bool Lane::idle() const noexcept {
  try {
    const bool copied = !copies_ || (copies_->out.idle() && copies_->in.idle());
    return in_flight_.empty() && retired_.empty() && stream_.idle() && copied;
  } catch (const std::exception&) {
    return true;
  }
}

void Lane::retire(std::shared_ptr<void> memory, Stream user) {
  order_after(user);
  retired_.push_back({events_.take(), std::move(memory)});
  retired_.back().last.record(stream());
}

void Lane::watch() {
  // One after the other: all of it is still there when one throws.
  for (auto operation = in_flight_.begin(); operation != in_flight_.end();) {
    operation = (*operation)->advance() ? in_flight_.erase(operation) : operation + 1;
  }
  // Freeing memory waits for the device, which waits for peers while a collective is in flight; and they may be dead.
  if (!in_flight_.empty()) return;
  for (auto retired = retired_.begin(); retired != retired_.end();) {
    const bool passed = retired->last.passed();
    if (passed) events_.give_back(std::move(retired->last));
    retired = passed ? retired_.erase(retired) : retired + 1;
  }
}

void Lane::give_up() noexcept {
  parts_.communicator->abort();
  if (parts_.shares.across != nullptr) parts_.shares.across->abort();
  in_flight_.clear();
}

void Lane::settle() noexcept {
  try {
    watch();
  } catch (const std::exception&) {  // of the group: what is retired may still be in use
    in_flight_.clear();
  }
  if (is_lost()) retired_.clear();  // nobody uses it any more
}

bool Lane::is_lost() const noexcept {
  try {
    static_cast<void>(stream_.idle());
    return false;
  } catch (const std::exception&) {
    return true;
  }
}

}  // namespace kolo::device
