#include "fuzz/memory_meter.h"

#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KOLO_HAS_ALLOCATION_HOOKS
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define KOLO_HAS_ALLOCATION_HOOKS
#endif

namespace kolo::fuzz {
namespace {

struct Held {
  std::size_t now = 0;
  std::size_t most = 0;
};
thread_local Held held;

void taken(std::size_t bytes) {
  held.now += bytes;
  held.most = std::max(held.most, held.now);
}

void given(std::size_t bytes) { held.now -= std::min(held.now, bytes); }

}  // namespace

MemoryMeter::MemoryMeter() noexcept : before_(held.now) { held.most = held.now; }

std::size_t MemoryMeter::peak() const noexcept { return held.most - before_; }

}  // namespace kolo::fuzz

#if defined(KOLO_HAS_ALLOCATION_HOOKS)

// The sanitizer has operators of its own, and tells of every allocation. Its header comes with clang only.
extern "C" {
int __sanitizer_install_malloc_and_free_hooks(void (*taken)(const volatile void*, std::size_t),
                                              void (*given)(const volatile void*));
std::size_t __sanitizer_get_allocated_size(const volatile void*);
}

namespace {

[[maybe_unused]] const int installed = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, std::size_t bytes) { kolo::fuzz::taken(bytes); },
    [](const volatile void* memory) { kolo::fuzz::given(__sanitizer_get_allocated_size(memory)); });

}  // namespace

#else

namespace {

void* take(std::size_t bytes) {
  void* memory = std::malloc(std::max<std::size_t>(bytes, 1));
  if (memory == nullptr) throw std::bad_alloc();
  kolo::fuzz::taken(malloc_usable_size(memory));
  return memory;
}

void give(void* memory) noexcept {
  if (memory == nullptr) return;
  kolo::fuzz::given(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) { return take(bytes); }
void operator delete(void* memory) noexcept { give(memory); }
void operator delete(void* memory, std::size_t) noexcept { give(memory); }

#endif
