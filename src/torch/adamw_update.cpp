#include "torch/adamw_update.h"

#include <cmath>

#include "torch/vector_clones.h"

namespace kolo {
namespace {

template <class T>
[[gnu::always_inline]] inline void update(const AdamwArrays<T>& arrays, const AdamwTerms& terms) {
  const auto number = static_cast<double>(terms.number);
  const T step = static_cast<T>(terms.lr / (1 - std::pow(terms.beta1, number)));
  const T shrink = static_cast<T>(1 - terms.lr * terms.weight_decay);
  const T keep1 = static_cast<T>(terms.beta1), take1 = static_cast<T>(1 - terms.beta1);
  const T keep2 = static_cast<T>(terms.beta2), take2 = static_cast<T>(1 - terms.beta2);
  const T root = static_cast<T>(std::sqrt(1 - std::pow(terms.beta2, number)));
  const T epsilon = static_cast<T>(terms.epsilon);
  T* __restrict weight = arrays.weight;
  T* __restrict first = arrays.first;
  T* __restrict second = arrays.second;
  const T* __restrict gradient = arrays.gradient;
  for (std::size_t i = 0; i < arrays.count; ++i) {
    const T g = gradient[i];
    const T m = keep1 * first[i] + take1 * g;
    const T v = keep2 * second[i] + take2 * g * g;
    first[i] = m;
    second[i] = v;
    weight[i] = weight[i] * shrink - step * m / (std::sqrt(v) / root + epsilon);
  }
}

KOLO_VECTOR_CLONES void update_f32(const AdamwArrays<float>& arrays, const AdamwTerms& terms) { update(arrays, terms); }

KOLO_VECTOR_CLONES void update_f64(const AdamwArrays<double>& arrays, const AdamwTerms& terms) {
  update(arrays, terms);
}

}  // namespace

void adamw_update(const AdamwArrays<float>& arrays, const AdamwTerms& terms) { update_f32(arrays, terms); }

void adamw_update(const AdamwArrays<double>& arrays, const AdamwTerms& terms) { update_f64(arrays, terms); }

}  // namespace kolo
