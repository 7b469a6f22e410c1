#include "torch/sgd_update.h"

#include "torch/vector_clones.h"

namespace kolo {
namespace {

// No decay is not a decay of 0, which would make NaN of a weight that is infinite.
template <bool kDecay, class T>
[[gnu::always_inline]] inline T decayed(T gradient, T decay, T weight) {
  return kDecay ? gradient + decay * weight : gradient;
}

template <class T, bool kDecay, bool kFirst, bool kNesterov>
[[gnu::always_inline]] inline void with_momentum(T* __restrict weight, T* __restrict momentum,
                                                 const T* __restrict gradient, std::size_t count,
                                                 const SgdTerms& terms) {
  const T lr = static_cast<T>(terms.lr);
  const T keep = static_cast<T>(terms.momentum);
  const T take = static_cast<T>(1 - terms.dampening);
  const T decay = static_cast<T>(terms.weight_decay);
  for (std::size_t i = 0; i < count; ++i) {
    const T g = decayed<kDecay>(gradient[i], decay, weight[i]);
    const T m = kFirst ? g : keep * momentum[i] + take * g;
    momentum[i] = m;
    weight[i] -= lr * (kNesterov ? g + keep * m : m);
  }
}

template <bool kDecay, class T>
[[gnu::always_inline]] inline void update_with(T* __restrict weight, T* __restrict momentum,
                                               const T* __restrict gradient, std::size_t count, const SgdTerms& terms) {
  if (momentum == nullptr) {
    const T lr = static_cast<T>(terms.lr);
    const T decay = static_cast<T>(terms.weight_decay);
    for (std::size_t i = 0; i < count; ++i) {
      weight[i] -= lr * decayed<kDecay>(gradient[i], decay, weight[i]);
    }
  } else if (terms.first) {
    terms.nesterov ? with_momentum<T, kDecay, true, true>(weight, momentum, gradient, count, terms)
                   : with_momentum<T, kDecay, true, false>(weight, momentum, gradient, count, terms);
  } else {
    terms.nesterov ? with_momentum<T, kDecay, false, true>(weight, momentum, gradient, count, terms)
                   : with_momentum<T, kDecay, false, false>(weight, momentum, gradient, count, terms);
  }
}

template <class T>
[[gnu::always_inline]] inline void update(T* weight, T* momentum, const T* gradient, std::size_t count,
                                          const SgdTerms& terms) {
  if (terms.weight_decay != 0) {
    update_with<true>(weight, momentum, gradient, count, terms);
  } else {
    update_with<false>(weight, momentum, gradient, count, terms);
  }
}

KOLO_VECTOR_CLONES void update_f32(float* weight, float* momentum, const float* gradient, std::size_t count,
                                   const SgdTerms& terms) {
  update(weight, momentum, gradient, count, terms);
}

KOLO_VECTOR_CLONES void update_f64(double* weight, double* momentum, const double* gradient, std::size_t count,
                                   const SgdTerms& terms) {
  update(weight, momentum, gradient, count, terms);
}

}  // namespace

void sgd_update(float* weight, float* momentum, const float* gradient, std::size_t count, const SgdTerms& terms) {
  update_f32(weight, momentum, gradient, count, terms);
}

void sgd_update(double* weight, double* momentum, const double* gradient, std::size_t count, const SgdTerms& terms) {
  update_f64(weight, momentum, gradient, count, terms);
}

}  // namespace kolo
