#pragma once
// The loop of every optimizer step: reads a bucket's gradients and some fp32 arrays of each tensor (the weight first),
// and writes the arrays back. Sixteen bytes of each array an access, as in device_run.h.
#include "kernels/device_run.h"
#include "kernels/table_view.h"
#include "kernels/update_state.h"

namespace kolo::kernels {

template <unsigned kArrays>
struct Arrays {
  float* at[kArrays];
};

[[nodiscard]] KOLO_HOST_DEVICE inline float gradient_scale(const Gradients& gradients) {
  return gradients.inverse_scale != nullptr ? gradients.scale * *gradients.inverse_scale : gradients.scale;
}

template <class Gradient, unsigned kArrays, class Rule>
KOLO_HOST_DEVICE void update_singly(const std::byte* gradient, const Arrays<kArrays>& arrays, std::size_t count,
                                    const Rule& rule, Share share) {
  using Bits = typename Gradient::Bits;
  for (std::size_t i = share.index; i < count; i += share.of) {
    float values[kArrays];
    for (unsigned a = 0; a < kArrays; ++a) values[a] = arrays.at[a][i];
    rule(Gradient::decode(load_once<Bits>(gradient + i * sizeof(Bits))), values);
    for (unsigned a = 0; a < kArrays; ++a) arrays.at[a][i] = values[a];
  }
}

// Four elements at a time. REQUIRES: all of them aligned to that.
template <class Gradient, unsigned kArrays, class Rule>
KOLO_HOST_DEVICE void update_packs(const std::byte* gradient, const Arrays<kArrays>& arrays, std::size_t packs,
                                   const Rule& rule, Share share) {
  using GradientPack = Pack<typename Gradient::Bits, 4>;
  using Quad = Pack<float, 4>;
  for (std::size_t i = share.index; i < packs; i += share.of) {
    const auto bits = load_once<GradientPack>(gradient + i * sizeof(GradientPack));
    Quad quads[kArrays];
    for (unsigned a = 0; a < kArrays; ++a) {
      quads[a] = load_once<Quad>(reinterpret_cast<const std::byte*>(arrays.at[a] + i * 4));
    }
    for (unsigned k = 0; k < 4; ++k) {
      float values[kArrays];
      for (unsigned a = 0; a < kArrays; ++a) values[a] = quads[a].lane[k];
      rule(Gradient::decode(bits.lane[k]), values);
      for (unsigned a = 0; a < kArrays; ++a) quads[a].lane[k] = values[a];
    }
    for (unsigned a = 0; a < kArrays; ++a) store(reinterpret_cast<std::byte*>(arrays.at[a] + i * 4), quads[a]);
  }
}

template <class Gradient, unsigned kArrays, class Rule>
KOLO_HOST_DEVICE void update_run(const std::byte* gradient, Arrays<kArrays> arrays, std::size_t count, const Rule& rule,
                                 Share share) {
  constexpr std::size_t kBits = sizeof(typename Gradient::Bits);
  std::size_t head = (16 - behind(arrays.at[0], 16)) % 16 / sizeof(float);
  if (head > count) head = count;
  bool alike = behind(gradient + head * kBits, 4 * kBits) == 0;
  for (unsigned a = 0; a < kArrays; ++a) alike = alike && behind(arrays.at[a] + head, 16) == 0;
  if (!alike) return update_singly<Gradient>(gradient, arrays, count, rule, share);
  const std::size_t packs = (count - head) / 4;
  update_singly<Gradient>(gradient, arrays, head, rule, share);
  for (unsigned a = 0; a < kArrays; ++a) arrays.at[a] += head;
  update_packs<Gradient>(gradient + head * kBits, arrays, packs, rule, share);
  for (unsigned a = 0; a < kArrays; ++a) arrays.at[a] += packs * 4;
  update_singly<Gradient>(gradient + (head + packs * 4) * kBits, arrays, count - head - packs * 4, rule, share);
}

// Over a table whose columns are the arrays; tensors whose weight is null are left out, and so is everything in a step
// that is skipped.
template <class Gradient, unsigned kArrays, class Rule>
KOLO_HOST_DEVICE void update_chunks(const TableView& table, const Gradients& gradients, const Rule& rule,
                                    const Position& at) {
  if (gradients.skip != nullptr && *gradients.skip != 0) return;
  const auto* bucket = static_cast<const std::byte*>(gradients.bucket);
  for (std::size_t i = at.block; i < table.chunk_count; i += at.blocks) {
    const Chunk chunk = table.chunks[i];
    if (table.addresses[chunk.tensor] == nullptr) continue;
    Arrays<kArrays> arrays;
    for (unsigned a = 0; a < kArrays; ++a) {
      std::byte* array = table.addresses[static_cast<std::size_t>(a) * table.tensors + chunk.tensor];
      arrays.at[a] = reinterpret_cast<float*>(array) + chunk.first;
    }
    const std::size_t place = table.offsets[chunk.tensor] + chunk.first;
    update_run<Gradient>(bucket + place * sizeof(typename Gradient::Bits), arrays, chunk.count, rule,
                         share_of_block(at));
  }
}

}  // namespace kolo::kernels
