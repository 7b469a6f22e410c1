#include "base/call_limit.h"

#include <algorithm>
#include <utility>

namespace kolo::base {

void CallLimit::begin_limited(std::uint64_t number) {
  if (held()) {
    try {
      hooks_.settle();
    } catch (...) {
      limit(0, kNone, std::current_exception());  // peers count this call, and it is not made
    }
  }
  std::uint64_t failure = kNone;
  {
    const std::scoped_lock lock(lock_);
    const Entry* entry = find(number);
    if (entry == nullptr) return;
    failure = entry->failure;
  }
  if (failure != kNone && hooks_.overtake) hooks_.overtake(failure);
  check(number);
}

void CallLimit::check(std::uint64_t number) const {
  if (hooks_.listen) hooks_.listen();
  if (number < limit_.load()) return;
  std::exception_ptr why;
  {
    const std::scoped_lock lock(lock_);
    if (const Entry* entry = find(number)) why = entry->why;
  }
  if (why) std::rethrow_exception(why);
}

void CallLimit::check_newest() const {
  const std::uint64_t begun = begun_.load();
  if (begun > 0) check(begun - 1);
}

void CallLimit::abandon(std::uint64_t number) noexcept {
  if (number < abandoned_.load()) abandoned_.store(number);  // the caller's thread is the only one that writes it
}

bool CallLimit::limit(std::uint64_t first, std::uint64_t failure, std::exception_ptr why) {
  const std::scoped_lock lock(lock_);
  entries_.push_back({first, failure, std::move(why)});
  update();
  return reached() > first;
}

void CallLimit::lift(std::uint64_t failure) {
  const std::scoped_lock lock(lock_);
  std::erase_if(entries_, [&](const Entry& entry) { return entry.failure == failure; });
  update();
}

void CallLimit::hold() {
  const std::scoped_lock lock(lock_);
  held_from_ = begun_.load();
  update();
}

void CallLimit::release() {
  const std::scoped_lock lock(lock_);
  held_from_ = kNone;
  update();
}

bool CallLimit::held() const {
  const std::scoped_lock lock(lock_);
  return held_from_ != kNone;
}

std::uint64_t CallLimit::reached() const noexcept { return std::min(begun_.load(), abandoned_.load()); }

const CallLimit::Entry* CallLimit::find(std::uint64_t number) const {
  const auto found = std::ranges::find_if(entries_, [&](const Entry& entry) { return number >= entry.first; });
  return found == entries_.end() ? nullptr : &*found;
}

void CallLimit::update() {
  std::uint64_t lowest = held_from_;
  for (const Entry& entry : entries_) lowest = std::min(lowest, entry.first);
  limit_.store(lowest);
}

}  // namespace kolo::base
