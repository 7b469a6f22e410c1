#include "device/lane.h"

#include <exception>
#include <utility>

namespace kolo::device {

Lane::Lane(LaneParts parts)
    : parts_(std::move(parts)),
      stream_(parts_.runtime, parts_.device, cuda::Priority::high),
      events_(parts_.runtime, parts_.device) {}

void Lane::adopt_thread() const {
  int current = 0;
  runtime()->check(runtime()->api().get_device(&current), "cudaGetDevice");
  if (current != device()) cuda::use_device(*runtime(), device());
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
    return in_flight_.empty() && retired_.empty() && stream_.idle();
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
  std::erase_if(in_flight_, [](const auto& operation) { return operation->advance(); });
  std::erase_if(retired_, [&](Retired& retired) {
    if (!retired.last.passed()) return false;
    events_.give_back(std::move(retired.last));
    return true;
  });
}

void Lane::give_up() noexcept {
  parts_.communicator->give_up();
  in_flight_.clear();
}

void Lane::settle() noexcept {
  try {
    watch();
  } catch (const std::exception&) {  // the device is lost, and what it used with it
    retired_.clear();
  }
}

}  // namespace kolo::device
