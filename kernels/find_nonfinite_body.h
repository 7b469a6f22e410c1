#pragma once
// What one thread does of find_nonfinite().
#include "kernels/device_run.h"
#include "kernels/find_nonfinite_arguments.h"

namespace kolo::kernels {

// By the bits of the exponent: all of them are set in infinities and NaNs, and only there.
[[nodiscard]] KOLO_HOST_DEVICE inline bool is_nonfinite(std::uint32_t bits) {
  return (bits & 0x7f800000u) == 0x7f800000u;
}

using Quad = Pack<std::uint32_t, 4>;

// With a hint that it may leave the caches first: a tenth faster here, where next to nothing is written. Kernels that
// write as much as they read lose by it (docs/decisions/0010-kernels-run-at-memory-bandwidth.md).
[[nodiscard]] KOLO_HOST_DEVICE inline Quad load_once(const std::byte* from) {
#ifdef __CUDA_ARCH__
  const uint4 word = __ldcs(reinterpret_cast<const uint4*>(from));
  return {{word.x, word.y, word.z, word.w}};
#else
  return load<Quad>(from);
#endif
}

// REQUIRES: `data` aligned to its elements.
[[nodiscard]] KOLO_HOST_DEVICE inline bool any_nonfinite(const std::byte* data, std::size_t count, Share share) {
  constexpr unsigned kAhead = 4;  // in flight
  bool found = false;
  const auto look = [&](std::uint32_t bits) { found = found || is_nonfinite(bits); };
  std::size_t head = (16 - behind(data, 16)) % 16 / sizeof(std::uint32_t);
  if (head > count) head = count;
  const std::size_t packs = (count - head) / 4;
  const std::byte* body = data + head * sizeof(std::uint32_t);
  const auto singly = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from + share.index; i < to; i += share.of) {
      look(load<std::uint32_t>(data + i * sizeof(std::uint32_t)));
    }
  };
  singly(0, head);
  std::size_t i = share.index;
  for (; i + (kAhead - 1) * share.of < packs; i += kAhead * share.of) {
    Quad loaded[kAhead];
    for (unsigned k = 0; k < kAhead; ++k) loaded[k] = load_once(body + (i + k * share.of) * sizeof(Quad));
    for (const Quad& quad : loaded) {
      for (const std::uint32_t bits : quad.lane) look(bits);
    }
  }
  for (; i < packs; i += share.of) {
    const auto quad = load_once(body + i * sizeof(Quad));
    for (const std::uint32_t bits : quad.lane) look(bits);
  }
  singly(head + packs * 4, count);
  return found;
}

KOLO_HOST_DEVICE inline void find_nonfinite_body(const FindNonfiniteArguments& arguments, const Position& at) {
  const TableView& table = arguments.table;
  for (std::size_t i = at.block; i < table.chunk_count; i += at.blocks) {
    const Chunk chunk = table.chunks[i];
    const std::byte* tensor = table.addresses[chunk.tensor];
    if (tensor == nullptr) continue;
    const std::byte* data = tensor + chunk.first * sizeof(float);
    // Whoever finds something writes the same.
    if (any_nonfinite(data, chunk.count, share_of_block(at))) *arguments.flag = 1.0F;
  }
}

}  // namespace kolo::kernels
