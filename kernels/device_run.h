#pragma once
// Loops over one contiguous run of elements that several threads share:
//
//       head          packs, one 16-byte access each, thread after thread             tail
//     |.......|================|================|================|=====  ...  =====|....|
//             ^ the output is aligned to a pack from here on
//
// A warp's accesses lie side by side, and each thread has several in flight. The wider of the two element types fills
// 16 bytes, the narrower its part of that. Where input and output cannot be aligned together, all goes element by
// element, still side by side; and byte by byte where an address is not even a multiple of its element.
#include "kernels/device_element.h"

namespace kolo::kernels {

// Where a thread stands on the device.
struct Position {
  unsigned block = 0;
  unsigned blocks = 1;
  unsigned thread = 0;
  unsigned threads = 1;
};

// The `index`th of `of` threads that share a run.
struct Share {
  std::size_t index;
  std::size_t of;
};

[[nodiscard]] KOLO_HOST_DEVICE inline Share share_of_block(const Position& at) { return {at.thread, at.threads}; }
[[nodiscard]] KOLO_HOST_DEVICE inline Share share_of_grid(const Position& at) {
  return {static_cast<std::size_t>(at.block) * at.threads + at.thread,
          static_cast<std::size_t>(at.blocks) * at.threads};
}

template <class In, class Out>
struct RunShape {
  using InBits = typename In::Bits;
  using OutBits = typename Out::Bits;
  static constexpr unsigned kLanes = 16 / (sizeof(InBits) > sizeof(OutBits) ? sizeof(InBits) : sizeof(OutBits));
  using InPack = Pack<InBits, kLanes>;
  using OutPack = Pack<OutBits, kLanes>;
  static constexpr unsigned kAhead = 64 / sizeof(InPack) < 8 ? 64 / sizeof(InPack) : 8;  // packs in flight
};

template <bool kNatural, class In, class Out, class Op>
KOLO_HOST_DEVICE void transform_singly(const std::byte* in, std::byte* out, std::size_t count, const Op& op,
                                       Share share) {
  using InBits = typename In::Bits;
  using OutBits = typename Out::Bits;
  for (std::size_t i = share.index; i < count; i += share.of) {
    const std::byte* from = in + i * sizeof(InBits);
    std::byte* to = out + i * sizeof(OutBits);
    if constexpr (kNatural) {
      store(to, Out::encode(op(In::decode(load<InBits>(from)))));
    } else {
      store_bytes(to, Out::encode(op(In::decode(load_bytes<InBits>(from)))));
    }
  }
}

template <class In, class Out, class Op>
KOLO_HOST_DEVICE void transform_pack(const typename RunShape<In, Out>::InPack& pack, std::byte* to, const Op& op) {
  typename RunShape<In, Out>::OutPack result;
  for (unsigned k = 0; k < RunShape<In, Out>::kLanes; ++k) result.lane[k] = Out::encode(op(In::decode(pack.lane[k])));
  store(to, result);
}

// From pack `first` on: `kAhead` of them in flight, then half as many for what is left, and so on.
// REQUIRES: both aligned to their packs.
template <class In, class Out, unsigned kAhead = RunShape<In, Out>::kAhead, class Op>
KOLO_HOST_DEVICE void transform_packs(const std::byte* in, std::byte* out, std::size_t packs, const Op& op, Share share,
                                      std::size_t first = 0) {
  using InPack = typename RunShape<In, Out>::InPack;
  constexpr std::size_t kOutBytes = sizeof(typename RunShape<In, Out>::OutPack);
  std::size_t i = first + share.index;
  for (; i + (kAhead - 1) * share.of < packs; i += kAhead * share.of) {
    InPack loaded[kAhead];
    for (unsigned k = 0; k < kAhead; ++k) loaded[k] = load<InPack>(in + (i + k * share.of) * sizeof(InPack));
    for (unsigned k = 0; k < kAhead; ++k) {
      transform_pack<In, Out>(loaded[k], out + (i + k * share.of) * kOutBytes, op);
    }
  }
  if constexpr (kAhead > 1) transform_packs<In, Out, kAhead / 2>(in, out, packs, op, share, i - share.index);
}

// out[i] = encode(op(decode(in[i]))) at any addresses. They may be equal where the types are of one size, else they do
// not overlap.
template <class In, class Out, class Op>
KOLO_HOST_DEVICE void transform_run(const std::byte* in, std::byte* out, std::size_t count, const Op& op, Share share) {
  using Shape = RunShape<In, Out>;
  constexpr std::size_t kInSize = sizeof(typename In::Bits);
  constexpr std::size_t kOutSize = sizeof(typename Out::Bits);
  constexpr std::size_t kOutPack = sizeof(typename Shape::OutPack);
  if (behind(in, kInSize) != 0 || behind(out, kOutSize) != 0) {
    return transform_singly<false, In, Out>(in, out, count, op, share);
  }
  std::size_t head = (kOutPack - behind(out, kOutPack)) % kOutPack / kOutSize;
  if (head > count) head = count;
  if (behind(in + head * kInSize, sizeof(typename Shape::InPack)) != 0) {
    return transform_singly<true, In, Out>(in, out, count, op, share);
  }
  const std::size_t packs = (count - head) / Shape::kLanes;
  const std::size_t tail = head + packs * Shape::kLanes;
  transform_singly<true, In, Out>(in, out, head, op, share);
  transform_packs<In, Out>(in + head * kInSize, out + head * kOutSize, packs, op, share);
  transform_singly<true, In, Out>(in + tail * kInSize, out + tail * kOutSize, count - tail, op, share);
}

// Zeros at any address.
template <class Out>
KOLO_HOST_DEVICE void zero_run(std::byte* out, std::size_t count, Share share) {
  constexpr std::size_t kSize = sizeof(typename Out::Bits);
  using ZeroPack = Pack<std::uint32_t, 4>;
  const std::size_t bytes = count * kSize;
  std::size_t head = (16 - behind(out, 16)) % 16;
  if (head > bytes) head = bytes;
  const std::size_t packs = (bytes - head) / 16;
  const std::size_t tail = head + packs * 16;
  for (std::size_t i = share.index; i < head; i += share.of) out[i] = std::byte{0};
  for (std::size_t i = share.index; i < packs; i += share.of) store(out + head + i * 16, ZeroPack{});
  for (std::size_t i = tail + share.index; i < bytes; i += share.of) out[i] = std::byte{0};
}

}  // namespace kolo::kernels
