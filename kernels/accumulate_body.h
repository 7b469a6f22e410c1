#pragma once
// What one thread does of accumulate(): the picture of device_run.h, with two inputs.
#include "kernels/accumulate_arguments.h"
#include "kernels/device_run.h"
#include "kernels/floating.h"

namespace kolo::kernels {

template <class E>
[[nodiscard]] KOLO_HOST_DEVICE typename E::Bits added(typename E::Bits a, typename E::Bits b) {
  return E::encode(static_cast<typename E::Value>(E::decode(a) + E::decode(b)));
}

template <class E, class Pack>
KOLO_HOST_DEVICE void add_pack(Pack& sum, const Pack& addend) {
  for (unsigned lane = 0; lane < RunShape<E, E>::kLanes; ++lane) {
    sum.lane[lane] = added<E>(sum.lane[lane], addend.lane[lane]);
  }
}

template <bool kNatural, class E>
KOLO_HOST_DEVICE void accumulate_singly(std::byte* sum, const std::byte* addend, std::size_t count, Share share) {
  using Bits = typename E::Bits;
  for (std::size_t i = share.index; i < count; i += share.of) {
    std::byte* to = sum + i * sizeof(Bits);
    const std::byte* from = addend + i * sizeof(Bits);
    if constexpr (kNatural) {
      store(to, added<E>(load<Bits>(to), load<Bits>(from)));
    } else {
      store_bytes(to, added<E>(load_bytes<Bits>(to), load_bytes<Bits>(from)));
    }
  }
}

// REQUIRES: both aligned to packs.
template <class E>
KOLO_HOST_DEVICE void accumulate_packs(std::byte* sum, const std::byte* addend, std::size_t packs, Share share) {
  using Shape = RunShape<E, E>;
  using Pack = typename Shape::InPack;
  constexpr unsigned kAhead = Shape::kAhead / 2;  // of each input: more is slower
  std::size_t i = share.index;
  for (; i + (kAhead - 1) * share.of < packs; i += kAhead * share.of) {
    Pack a[kAhead], b[kAhead];
    for (unsigned k = 0; k < kAhead; ++k) {
      a[k] = load<Pack>(sum + (i + k * share.of) * sizeof(Pack));
      b[k] = load<Pack>(addend + (i + k * share.of) * sizeof(Pack));
    }
    for (unsigned k = 0; k < kAhead; ++k) {
      add_pack<E>(a[k], b[k]);
      store(sum + (i + k * share.of) * sizeof(Pack), a[k]);
    }
  }
  for (; i < packs; i += share.of) {
    Pack a = load<Pack>(sum + i * sizeof(Pack));
    add_pack<E>(a, load<Pack>(addend + i * sizeof(Pack)));
    store(sum + i * sizeof(Pack), a);
  }
}

template <class E>
KOLO_HOST_DEVICE void accumulate_run(std::byte* sum, const std::byte* addend, std::size_t count, Share share) {
  constexpr std::size_t kSize = sizeof(typename E::Bits);
  constexpr std::size_t kPack = sizeof(typename RunShape<E, E>::InPack);
  if (behind(sum, kSize) != 0 || behind(addend, kSize) != 0) {
    return accumulate_singly<false, E>(sum, addend, count, share);
  }
  if (behind(sum, kPack) != behind(addend, kPack)) return accumulate_singly<true, E>(sum, addend, count, share);
  std::size_t head = (kPack - behind(sum, kPack)) % kPack / kSize;
  if (head > count) head = count;
  const std::size_t packs = (count - head) * kSize / kPack;
  const std::size_t tail = head + packs * (kPack / kSize);
  accumulate_singly<true, E>(sum, addend, head, share);
  accumulate_packs<E>(sum + head * kSize, addend + head * kSize, packs, share);
  accumulate_singly<true, E>(sum + tail * kSize, addend + tail * kSize, count - tail, share);
}

KOLO_HOST_DEVICE inline void accumulate_body(const AccumulateArguments& arguments, const Position& at) {
  with_floating(arguments.dtype, [&](auto element) {
    accumulate_run<decltype(element)>(arguments.sum, arguments.addend, arguments.count, share_of_grid(at));
  });
}

}  // namespace kolo::kernels
