#include "collectives/ring_place.h"

namespace kolo::collectives {

std::span<std::byte> HostPlace::room(std::size_t slot, std::size_t bytes) {
  rooms_[slot].resize(bytes);
  return rooms_[slot];
}

void HostPlace::prescale(const Reduction& reduction, std::byte* own, std::size_t count) {
  prescale_in_place(reduction, own, count);
}

void HostPlace::combine(std::size_t slot, const Reduction& reduction, std::byte* own, std::size_t count,
                        const Reduction::Step& step) {
  prescale(reduction, own, count);
  const std::byte* const partials[] = {rooms_[slot].data(), own};
  collectives::combine(reduction, partials, {&own, 1}, count, step);
}

}  // namespace kolo::collectives
