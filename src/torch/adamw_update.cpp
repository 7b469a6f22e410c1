#include <cmath>

#include "base/adamw_factors.h"
#include "torch/update_element.h"
#include "torch/update_loops.h"

namespace kolo {
namespace {

template <class T>
[[gnu::always_inline]] inline void update(const UpdateArrays& arrays, const base::AdamwFactors& factors) {
  const T scale = static_cast<T>(arrays.gradient_scale);
  const T step = static_cast<T>(factors.step);
  const T shrink = static_cast<T>(factors.shrink);
  const T keep1 = static_cast<T>(factors.keep1), take1 = static_cast<T>(factors.take1);
  const T keep2 = static_cast<T>(factors.keep2), take2 = static_cast<T>(factors.take2);
  const T root = static_cast<T>(factors.root);
  const T epsilon = static_cast<T>(factors.epsilon);
  auto* __restrict weight = static_cast<T*>(arrays.weight);
  auto* __restrict first = static_cast<T*>(arrays.first);
  auto* __restrict second = static_cast<T*>(arrays.second);
  const auto* __restrict gradient = static_cast<const T*>(arrays.gradient);
  for (std::size_t i = 0; i < arrays.count; ++i) {
    const T g = gradient[i] * scale;
    const T m = keep1 * first[i] + take1 * g;
    const T v = keep2 * second[i] + take2 * g * g;
    const T w = weight[i];
    first[i] = with_one_nan(m);
    second[i] = with_one_nan(v);
    weight[i] = with_one_nan(w * shrink - step * m / (std::sqrt(v) / root + epsilon));
  }
}

template <class Element>
[[gnu::always_inline]] inline void update_in_blocks(const UpdateArrays& arrays, const base::AdamwFactors& factors) {
  using Few = Block<Element>;
  for (std::size_t from = 0; from < arrays.count; from += Few::kCount) {
    const UpdateArrays part = part_of(arrays, from, std::min(from + Few::kCount, arrays.count));
    Few block(part);
    update<float>(block.decoded(), factors);
    block.store();
  }
}

KOLO_VECTOR_CLONES void update_f32(const UpdateArrays& arrays, const base::AdamwFactors& factors) {
  update<float>(arrays, factors);
}

KOLO_VECTOR_CLONES void update_f64(const UpdateArrays& arrays, const base::AdamwFactors& factors) {
  update<double>(arrays, factors);
}

KOLO_VECTOR_CLONES void update_f16(const UpdateArrays& arrays, const base::AdamwFactors& factors) {
  update_in_blocks<HalfElement>(arrays, factors);
}

KOLO_VECTOR_CLONES void update_bf16(const UpdateArrays& arrays, const base::AdamwFactors& factors) {
  update_in_blocks<BFloat16Element>(arrays, factors);
}

}  // namespace

void adamw_update(const UpdateArrays& arrays, const AdamwTerms& terms) {
  const base::AdamwFactors factors = base::adamw_factors(terms);
  switch (arrays.dtype) {
    case DType::f32:
      return update_f32(arrays, factors);
    case DType::f64:
      return update_f64(arrays, factors);
    case DType::f16:
      return update_f16(arrays, factors);
    case DType::bf16:
      return update_bf16(arrays, factors);
    default:
      return;
  }
}

}  // namespace kolo
