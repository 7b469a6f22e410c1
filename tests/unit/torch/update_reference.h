#pragma once
// Steps of SGD and AdamW, one element after the other in plain scalars, and 16-bit floats by search: what the loops of
// src/torch must have bit for bit.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "kolo/spi/optimizer_step.h"
#include "kolo/types.h"

namespace kolo::test {

template <class T>
struct PlainReference {
  using Stored = T;
  using Compute = T;
  static T decode(T stored) { return stored; }
  static T encode(T value) { return value; }
};
struct F32Reference : PlainReference<float> {
  static constexpr DType kDType = DType::f32;
};
struct F64Reference : PlainReference<double> {
  static constexpr DType kDType = DType::f64;
};

// A float of 16 bits with a sign, `kExponent` bits of exponent, and the rest mantissa.
template <DType kType, int kExponent>
struct SmallReference {
  using Stored = std::uint16_t;
  using Compute = float;
  static constexpr DType kDType = kType;
  static constexpr int kMantissa = 15 - kExponent;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr int kInfinite = ((1 << kExponent) - 1) << kMantissa;

  // Of each number without its sign, and for infinity what would be the next number.
  static double magnitude(int bits) {
    static const std::vector<double> all = [] {
      std::vector<double> magnitudes;
      for (int each = 0; each <= kInfinite; ++each) {
        const int exponent = each >> kMantissa, mantissa = each & ((1 << kMantissa) - 1);
        magnitudes.push_back(exponent == 0 ? std::ldexp(mantissa, 1 - kBias - kMantissa)
                                           : std::ldexp(mantissa + (1 << kMantissa), exponent - kBias - kMantissa));
      }
      return magnitudes;
    }();
    return all[static_cast<std::size_t>(bits)];
  }
  static float decode(std::uint16_t stored) {
    const int bits = stored & 0x7fff;
    float value = std::numeric_limits<float>::infinity();
    if (bits < kInfinite) value = static_cast<float>(magnitude(bits));
    if (bits > kInfinite) value = std::numeric_limits<float>::quiet_NaN();
    return (stored & 0x8000) != 0 ? -value : value;
  }
  // The nearest; of two the even one.
  static std::uint16_t encode(float value) {
    const double wanted = std::fabs(static_cast<double>(value));
    int low = 0, high = kInfinite;  // magnitude(low) <= wanted < magnitude(high), if it is finite
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (magnitude(middle) <= wanted ? low : high) = middle;
    }
    const double down = wanted - magnitude(low), up = magnitude(high) - wanted;
    const int bits = down < up || (down == up && low % 2 == 0) ? low : high;
    return static_cast<std::uint16_t>(bits | (std::signbit(value) ? 0x8000 : 0));
  }
};
using F16Reference = SmallReference<DType::f16, 5>;
using BF16Reference = SmallReference<DType::bf16, 8>;

// Weights, what an optimizer keeps for them, and gradients that change. Momenta begin with zeros.
template <class Reference>
struct Elements {
  using Stored = typename Reference::Stored;
  using T = typename Reference::Compute;

  explicit Elements(std::size_t count) : random(count), weight(count), first(count), second(count), gradient(count) {
    fill(weight);
  }
  void new_gradients() { fill(gradient); }

  void sgd(const SgdTerms& terms, double gradient_scale) {
    const T lr = static_cast<T>(terms.lr), keep = static_cast<T>(terms.momentum);
    const T take = static_cast<T>(1 - terms.dampening), decay = static_cast<T>(terms.weight_decay);
    for (std::size_t i = 0; i < weight.size(); ++i) {
      const T w = Reference::decode(weight[i]);
      T g = Reference::decode(gradient[i]) * static_cast<T>(gradient_scale);
      if (terms.weight_decay != 0) g = g + decay * w;
      if (terms.momentum != 0) {
        const T m = terms.first ? g : keep * Reference::decode(first[i]) + take * g;
        first[i] = Reference::encode(m);
        g = terms.nesterov ? g + keep * m : m;
      }
      weight[i] = Reference::encode(w - lr * g);
    }
  }

  // REQUIRES: terms.number is 1, 2 or 3.
  void adamw(const AdamwTerms& terms, double gradient_scale) {
    const auto power = [&](double b) { return terms.number == 1 ? b : terms.number == 2 ? b * b : b * (b * b); };
    const T step = static_cast<T>(terms.lr / (1 - power(terms.beta1)));
    const T shrink = static_cast<T>(1 - terms.lr * terms.weight_decay);
    const T keep1 = static_cast<T>(terms.beta1), take1 = static_cast<T>(1 - terms.beta1);
    const T keep2 = static_cast<T>(terms.beta2), take2 = static_cast<T>(1 - terms.beta2);
    const T root = static_cast<T>(std::sqrt(1 - power(terms.beta2)));
    const T epsilon = static_cast<T>(terms.epsilon);
    for (std::size_t i = 0; i < weight.size(); ++i) {
      const T g = Reference::decode(gradient[i]) * static_cast<T>(gradient_scale);
      const T m = keep1 * Reference::decode(first[i]) + take1 * g;
      const T v = keep2 * Reference::decode(second[i]) + take2 * g * g;
      first[i] = Reference::encode(m);
      second[i] = Reference::encode(v);
      const T w = Reference::decode(weight[i]);
      weight[i] = Reference::encode(w * shrink - step * m / (std::sqrt(v) / root + epsilon));
    }
  }

  std::mt19937_64 random;
  std::vector<Stored> weight, first, second, gradient;

 private:
  // Of several magnitudes, also such as are subnormal in 16 bits.
  void fill(std::vector<Stored>& values) {
    for (Stored& each : values) {
      const auto number = static_cast<T>(static_cast<std::int64_t>(random() % 20001) - 10000) / T(7919);
      each = Reference::encode(random() % 8 == 0 ? number * T(1e-5) : number);
    }
  }
};

inline const std::vector<SgdTerms>& sgd_terms() {
  static const std::vector<SgdTerms> terms = {
      {0.1, 0, 0, 0, false},      {0.1, 0, 0, 1e-2, false},  {0.05, 0.9, 0, 0, false}, {0.05, 0.9, 0, 1e-4, false},
      {0.05, 0.9, 0.1, 0, false}, {0.3, 0.8, 0, 5e-4, true}, {0.3, 0.8, 0, 0, true}};
  return terms;
}

inline const std::vector<AdamwTerms>& adamw_terms() {
  static const std::vector<AdamwTerms> terms = {{1e-2, 0.9, 0.999, 1e-8, 1e-2}, {3e-3, 0.8, 0.95, 1e-4, 0}};
  return terms;
}

}  // namespace kolo::test
