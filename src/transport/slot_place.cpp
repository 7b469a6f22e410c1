#include "transport/slot_place.h"

#include <cstdint>

namespace kolo::transport {
namespace {

constexpr std::uintptr_t kUnseen = std::uintptr_t{1} << 28;  // the hash sees no multiple of it
constexpr std::uintptr_t kSeen = std::uintptr_t{2} << 20;    // and this always; huge pages could begin with it

}  // namespace

void* slot_place(void* first, std::size_t index, std::size_t length, int place) noexcept {
  const std::uintptr_t apart = (length + kUnseen - 1) / kUnseen * kUnseen;
  // Twice as far each time, past whatever lies there.
  const std::uintptr_t further = place == 0 ? 0 : kUnseen << (place - 1);
  const std::uintptr_t distance = index * (apart + kSeen) + further;
  const auto highest = reinterpret_cast<std::uintptr_t>(first);
  // Downwards, as the kernel goes: most is free there.
  if (index == 0 || distance >= highest) return nullptr;
  return reinterpret_cast<void*>(highest - distance);
}

}  // namespace kolo::transport
