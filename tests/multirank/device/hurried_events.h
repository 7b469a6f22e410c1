#pragma once
// Part of a table of calls: lies to the host about copies out of a device. What waits for them then reads too early.
#include <atomic>
#include <cstddef>
#include <iterator>
#include <map>
#include <mutex>
#include <set>

#include "cuda/runtime_api.h"

namespace kolo::test {

// Begins and bytes of blocks of memory; the begin of the one that `memory` is in, or null.
using MemoryBlocks = std::map<const std::byte*, std::size_t>;
inline const std::byte* block_of(const MemoryBlocks& blocks, const void* memory) {
  const auto* const at = static_cast<const std::byte*>(memory);
  const auto next = blocks.upper_bound(at);
  if (next == blocks.begin()) return nullptr;
  const auto& [begin, bytes] = *std::prev(next);
  return at < begin + bytes ? begin : nullptr;
}

class HurriedEvents {
 public:
  // Whether the host is told at once, and wrongly, that a copy out of the device has come; and how often it was.
  std::atomic<bool> hurry = false;
  std::atomic<int> hurried = 0;

 protected:
  // Whether `event` is now of such a copy.
  void recorded(cuda::EventHandle event, bool of_copy_out) {
    const std::scoped_lock lock(events_lock_);
    if (of_copy_out) {
      out_events_.insert(event);
    } else {
      out_events_.erase(event);
    }
  }
  // In place of a query.
  [[nodiscard]] bool hurries(cuda::EventHandle event) {
    const std::scoped_lock lock(events_lock_);
    if (!hurry || !out_events_.contains(event)) return false;
    ++hurried;
    return true;
  }

 private:
  std::mutex events_lock_;
  std::set<cuda::EventHandle> out_events_;
};

}  // namespace kolo::test
