#pragma once
// The inner loops of FusedSGD and FusedAdamW: one tensor of a step, as plain memory.
#include <cstddef>

#include "kolo/spi/optimizer_step.h"
#include "kolo/types.h"

namespace kolo {

// Element i of each array belongs to element i of the weight. The arrays do not overlap.
struct UpdateArrays {
  DType dtype = DType::f32;  // of all arrays: f32, f64, f16 or bf16
  void* weight = nullptr;
  void* first = nullptr;   // SGD: the momentum, or null without momentum. AdamW: the first moment
  void* second = nullptr;  // AdamW: the second moment
  const void* gradient = nullptr;
  std::size_t count = 0;      // elements
  double gradient_scale = 1;  // each gradient is multiplied by it before use; the array is not changed
};

// Elements [from, to). REQUIRES: from <= to <= arrays.count.
[[nodiscard]] inline UpdateArrays part_of(const UpdateArrays& arrays, std::size_t from, std::size_t to) {
  const std::size_t skipped = from * size_of(arrays.dtype);
  const auto behind = [&](void* array) { return array == nullptr ? array : static_cast<std::byte*>(array) + skipped; };
  UpdateArrays part = arrays;
  part.weight = behind(arrays.weight);
  part.first = behind(arrays.first);
  part.second = behind(arrays.second);
  part.gradient = static_cast<const std::byte*>(arrays.gradient) + skipped;
  part.count = to - from;
  return part;
}

// Both round each operation to the type of update_element.h, in the order of SgdTerms and AdamwTerms. So an element has
// the same bits on every processor and at every place in the array.
//
// REQUIRES: the momentum, if terms.momentum is not 0.
void sgd_update(const UpdateArrays& arrays, const SgdTerms& terms);
// Computes factors that depend on the terms alone in fp64 and rounds them to that type. REQUIRES: all four arrays.
void adamw_update(const UpdateArrays& arrays, const AdamwTerms& terms);

}  // namespace kolo
