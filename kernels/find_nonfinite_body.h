#pragma once
// What one thread does of find_nonfinite().
#include "kernels/device_run.h"
#include "kernels/find_nonfinite_arguments.h"
#include "kernels/floating.h"

namespace kolo::kernels {

// The bits of an element's exponent: all of them are set in infinities and NaNs, and only there.
KOLO_HOST_DEVICE inline std::uint32_t exponent_mask(F32) { return 0x7f800000u; }
KOLO_HOST_DEVICE inline std::uint64_t exponent_mask(F64) { return 0x7ff0000000000000u; }
KOLO_HOST_DEVICE inline std::uint16_t exponent_mask(F16) { return 0x7c00u; }
KOLO_HOST_DEVICE inline std::uint16_t exponent_mask(BF16) { return 0x7f80u; }

template <class E>
[[nodiscard]] KOLO_HOST_DEVICE bool any_nonfinite(const std::byte* data, std::size_t count, Share share) {
  using Bits = typename E::Bits;
  using Shape = RunShape<E, E>;
  using InPack = typename Shape::InPack;
  const Bits mask = exponent_mask(E{});
  bool found = false;
  const auto look = [&](Bits bits) { found = found || (bits & mask) == mask; };
  std::size_t head = (sizeof(InPack) - behind(data, sizeof(InPack))) % sizeof(InPack) / sizeof(Bits);
  if (head > count || behind(data, sizeof(Bits)) != 0) head = count;  // nothing but single elements
  const std::size_t packs = (count - head) / Shape::kLanes;
  const std::byte* body = data + head * sizeof(Bits);
  for (std::size_t i = share.index; i < head; i += share.of) look(load_bytes<Bits>(data + i * sizeof(Bits)));
  std::size_t i = share.index;
  for (; i + (Shape::kAhead - 1) * share.of < packs; i += Shape::kAhead * share.of) {
    InPack loaded[Shape::kAhead];
    for (unsigned k = 0; k < Shape::kAhead; ++k) {
      loaded[k] = load_once<InPack>(body + (i + k * share.of) * sizeof(InPack));
    }
    for (const InPack& pack : loaded) {
      for (const Bits bits : pack.lane) look(bits);
    }
  }
  for (; i < packs; i += share.of) {
    const auto pack = load_once<InPack>(body + i * sizeof(InPack));
    for (const Bits bits : pack.lane) look(bits);
  }
  for (std::size_t k = head + packs * Shape::kLanes + share.index; k < count; k += share.of) {
    look(load_bytes<Bits>(data + k * sizeof(Bits)));
  }
  return found;
}

KOLO_HOST_DEVICE inline void find_nonfinite_body(const FindNonfiniteArguments& arguments, const Position& at) {
  with_floating(arguments.dtype, [&](auto element) {
    if (!any_nonfinite<decltype(element)>(arguments.data, arguments.count, share_of_grid(at))) return;
#ifdef __CUDA_ARCH__
    atomicOr(arguments.flag, 1u);  // rare, so it does not matter how many do
#else
    *arguments.flag |= 1u;
#endif
  });
}

}  // namespace kolo::kernels
