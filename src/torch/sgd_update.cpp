#include "torch/update_element.h"
#include "torch/update_loops.h"

namespace kolo {
namespace {

// Weight decay 0 must not become a decay by 0, which makes NaN of a weight that is infinite.
template <bool kDecay, class T>
[[gnu::always_inline]] inline T decayed(T gradient, T decay, T weight) {
  return kDecay ? gradient + decay * weight : gradient;
}

template <class T, bool kDecay>
[[gnu::always_inline]] inline void without_momentum(const UpdateArrays& arrays, const SgdTerms& terms) {
  const T scale = static_cast<T>(arrays.gradient_scale);
  const T lr = static_cast<T>(terms.lr);
  const T decay = static_cast<T>(terms.weight_decay);
  auto* __restrict weight = static_cast<T*>(arrays.weight);
  const auto* __restrict gradient = static_cast<const T*>(arrays.gradient);
  for (std::size_t i = 0; i < arrays.count; ++i) {
    const T w = weight[i];
    const T g = decayed<kDecay>(gradient[i] * scale, decay, w);
    weight[i] = with_one_nan(w - lr * g);
  }
}

template <class T, bool kDecay, bool kFirst, bool kNesterov>
[[gnu::always_inline]] inline void with_momentum(const UpdateArrays& arrays, const SgdTerms& terms) {
  const T scale = static_cast<T>(arrays.gradient_scale);
  const T lr = static_cast<T>(terms.lr);
  const T keep = static_cast<T>(terms.momentum);
  const T take = static_cast<T>(1 - terms.dampening);
  const T decay = static_cast<T>(terms.weight_decay);
  auto* __restrict weight = static_cast<T*>(arrays.weight);
  auto* __restrict momentum = static_cast<T*>(arrays.first);
  const auto* __restrict gradient = static_cast<const T*>(arrays.gradient);
  for (std::size_t i = 0; i < arrays.count; ++i) {
    const T w = weight[i];
    const T g = decayed<kDecay>(gradient[i] * scale, decay, w);
    const T m = kFirst ? g : keep * momentum[i] + take * g;
    momentum[i] = with_one_nan(m);
    weight[i] = with_one_nan(w - lr * (kNesterov ? g + keep * m : m));
  }
}

template <class T, bool kDecay>
[[gnu::always_inline]] inline void update_with(const UpdateArrays& arrays, const SgdTerms& terms) {
  if (arrays.first == nullptr) {
    without_momentum<T, kDecay>(arrays, terms);
  } else if (terms.first) {
    terms.nesterov ? with_momentum<T, kDecay, true, true>(arrays, terms)
                   : with_momentum<T, kDecay, true, false>(arrays, terms);
  } else {
    terms.nesterov ? with_momentum<T, kDecay, false, true>(arrays, terms)
                   : with_momentum<T, kDecay, false, false>(arrays, terms);
  }
}

template <class T>
[[gnu::always_inline]] inline void update(const UpdateArrays& arrays, const SgdTerms& terms) {
  if (terms.weight_decay != 0) {
    update_with<T, true>(arrays, terms);
  } else {
    update_with<T, false>(arrays, terms);
  }
}

template <class Element>
[[gnu::always_inline]] inline void update_in_blocks(const UpdateArrays& arrays, const SgdTerms& terms) {
  using Few = Block<Element>;
  for (std::size_t from = 0; from < arrays.count; from += Few::kCount) {
    const UpdateArrays part = part_of(arrays, from, std::min(from + Few::kCount, arrays.count));
    Few block(part);
    update<float>(block.decoded(), terms);
    block.store();
  }
}

KOLO_VECTOR_CLONES void update_f32(const UpdateArrays& arrays, const SgdTerms& terms) { update<float>(arrays, terms); }

KOLO_VECTOR_CLONES void update_f64(const UpdateArrays& arrays, const SgdTerms& terms) { update<double>(arrays, terms); }

KOLO_VECTOR_CLONES void update_f16(const UpdateArrays& arrays, const SgdTerms& terms) {
  update_in_blocks<HalfElement>(arrays, terms);
}

KOLO_VECTOR_CLONES void update_bf16(const UpdateArrays& arrays, const SgdTerms& terms) {
  update_in_blocks<BFloat16Element>(arrays, terms);
}

}  // namespace

void sgd_update(const UpdateArrays& arrays, const SgdTerms& terms) {
  switch (arrays.dtype) {
    case DType::f32:
      return update_f32(arrays, terms);
    case DType::f64:
      return update_f64(arrays, terms);
    case DType::f16:
      return update_f16(arrays, terms);
    case DType::bf16:
      return update_bf16(arrays, terms);
    default:
      return;
  }
}

}  // namespace kolo
