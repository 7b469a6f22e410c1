#pragma once
// The loop of every optimizer step: reads the gradient and some arrays of each tensor (the weight first), all fp32, and
// writes the arrays back. Sixteen bytes of each an access, as in device_run.h.
#include "kernels/device_run.h"
#include "kernels/leave.h"
#include "kernels/table_view.h"

namespace kolo::kernels {

template <unsigned kArrays>
struct Arrays {
  const float* gradient;
  float* at[kArrays];

  KOLO_HOST_DEVICE void advance(std::size_t count) {
    gradient += count;
    for (unsigned a = 0; a < kArrays; ++a) at[a] += count;
  }
};

// As memory, for loads and stores.
[[nodiscard]] KOLO_HOST_DEVICE inline const std::byte* bytes_at(const float* values) {
  return reinterpret_cast<const std::byte*>(values);
}

template <unsigned kArrays, class Rule>
KOLO_HOST_DEVICE void update_singly(const Arrays<kArrays>& arrays, std::size_t count, const Rule& rule, Share share) {
  for (std::size_t i = share.index; i < count; i += share.of) {
    float values[kArrays];
    for (unsigned a = 0; a < kArrays; ++a) values[a] = arrays.at[a][i];
    rule(arrays.gradient[i], values);
    for (unsigned a = 0; a < kArrays; ++a) arrays.at[a][i] = values[a];
  }
}

// Four elements at a time. REQUIRES: all of them aligned to that.
template <unsigned kArrays, class Rule>
KOLO_HOST_DEVICE void update_packs(const Arrays<kArrays>& arrays, std::size_t packs, const Rule& rule, Share share) {
  using Quad = Pack<float, 4>;
  for (std::size_t i = share.index; i < packs; i += share.of) {
    const auto gradient = load<Quad>(bytes_at(arrays.gradient + i * 4));
    Quad quads[kArrays];
    for (unsigned a = 0; a < kArrays; ++a) quads[a] = load<Quad>(bytes_at(arrays.at[a] + i * 4));
    for (unsigned k = 0; k < 4; ++k) {
      float values[kArrays];
      for (unsigned a = 0; a < kArrays; ++a) values[a] = quads[a].lane[k];
      rule(gradient.lane[k], values);
      for (unsigned a = 0; a < kArrays; ++a) quads[a].lane[k] = values[a];
    }
    for (unsigned a = 0; a < kArrays; ++a) store(reinterpret_cast<std::byte*>(arrays.at[a] + i * 4), quads[a]);
  }
}

template <unsigned kArrays, class Rule>
KOLO_HOST_DEVICE void update_run(Arrays<kArrays> arrays, std::size_t count, const Rule& rule, Share share) {
  std::size_t head = (16 - behind(arrays.at[0], 16)) % 16 / sizeof(float);
  if (head > count) head = count;
  bool alike = behind(arrays.gradient + head, 16) == 0;
  for (unsigned a = 0; a < kArrays; ++a) alike = alike && behind(arrays.at[a] + head, 16) == 0;
  if (!alike) return update_singly(arrays, count, rule, share);
  const std::size_t packs = (count - head) / 4;
  update_singly(arrays, head, rule, share);
  arrays.advance(head);
  update_packs(arrays, packs, rule, share);
  arrays.advance(packs * 4);
  update_singly(arrays, count - head - packs * 4, rule, share);
}

// Read anew by every launch, from where the host writes.
[[nodiscard]] KOLO_HOST_DEVICE inline bool is_set(const std::uint32_t* word) {
#ifdef __CUDA_ARCH__
  return *static_cast<const volatile std::uint32_t*>(word) != 0;
#else
  return __atomic_load_n(word, __ATOMIC_ACQUIRE) != 0;
#endif
}

[[nodiscard]] KOLO_HOST_DEVICE inline bool is_left(const Leave& leave) {
  if (leave.skip != nullptr && *leave.skip != 0) return true;
  return leave.given_up != nullptr && is_set(leave.given_up);
}

// Over a table whose columns are the gradients and the arrays; tensors whose gradient is null are left out.
template <unsigned kArrays, class Rule>
KOLO_HOST_DEVICE void update_chunks(const TableView& table, const Rule& rule, const Position& at) {
  for (std::size_t i = at.block; i < table.chunk_count; i += at.blocks) {
    const Chunk chunk = table.chunks[i];
    const auto column = [&](std::size_t number) {
      return reinterpret_cast<float*>(table.addresses[number * table.tensors + chunk.tensor]);
    };
    if (column(0) == nullptr) continue;
    Arrays<kArrays> arrays;
    arrays.gradient = column(0) + chunk.first;
    for (unsigned a = 0; a < kArrays; ++a) arrays.at[a] = column(a + 1) + chunk.first;
    update_run(arrays, chunk.count, rule, share_of_block(at));
  }
}

}  // namespace kolo::kernels
