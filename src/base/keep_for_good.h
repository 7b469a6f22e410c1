#pragma once
// Memory that something may still use, while nobody can tell when it no longer does.
#include <atomic>
#include <new>
#include <utility>

namespace kolo::base {

// All that is kept is found from here: lost on purpose, and no leak to those who look for leaks.
struct KeptForGood {
  KeptForGood* next = nullptr;

  static inline constinit std::atomic<KeptForGood*> newest{nullptr};
};

// Keeps the memory until the process ends, without destroying it then. Where there is no room to remember it, it goes.
template <class Memory>
void keep_for_good(Memory memory) noexcept {
  struct Kept final : KeptForGood {
    explicit Kept(Memory kept) noexcept : memory(std::move(kept)) {}
    Memory memory;
  };
  auto* const kept = new (std::nothrow) Kept(std::move(memory));
  if (kept == nullptr) return;
  kept->next = KeptForGood::newest.load(std::memory_order_relaxed);
  while (!KeptForGood::newest.compare_exchange_weak(kept->next, kept, std::memory_order_release,
                                                    std::memory_order_relaxed)) {
  }
}

}  // namespace kolo::base
