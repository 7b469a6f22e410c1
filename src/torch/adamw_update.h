#pragma once
// The inner loop of FusedAdamW, on plain memory.
#include <cstddef>

#include "kolo/optimizer_step.h"

namespace kolo {

// One tensor. The four do not overlap.
template <class T>
struct AdamwArrays {
  T* weight = nullptr;
  T* first = nullptr;
  T* second = nullptr;
  const T* gradient = nullptr;
  std::size_t count = 0;
};

// Every rounding is that of one operation in the element's type, in the order of AdamwTerms, on every processor; what
// depends on the terms alone is formed in fp64 and rounded.
void adamw_update(const AdamwArrays<float>& arrays, const AdamwTerms& terms);
void adamw_update(const AdamwArrays<double>& arrays, const AdamwTerms& terms);

}  // namespace kolo
