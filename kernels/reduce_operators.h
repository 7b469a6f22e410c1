#pragma once
// What a reduction computes: operators and scaling, each on one value and on a vector of them. See host_vector.h on
// what may stand here. For floats, a NaN on either side is an operator's result.
#include "kernels/host_kernels.h"
#include "kernels/host_vector.h"

namespace kolo::kernels {
namespace {

struct Sum {
  template <class T>
  KOLO_INLINE static T of(T a, T b) {
    return a + b;
  }
};
struct Product {
  template <class T>
  KOLO_INLINE static T of(T a, T b) {
    return a * b;
  }
  // As an int, which 16 bits would become, the product could overflow.
  KOLO_INLINE static std::uint16_t of(std::uint16_t a, std::uint16_t b) { return (std::uint16_t)((unsigned)a * b); }
};
struct Min {
  template <class T>
  KOLO_INLINE static T of(T a, T b) {
    return (b < a) | (b != b) ? b : a;
  }
};
struct Max {
  template <class T>
  KOLO_INLINE static T of(T a, T b) {
    return (b > a) | (b != b) ? b : a;
  }
};
struct Or {
  template <class T>
  KOLO_INLINE static T of(T a, T b) {
    return a | b;
  }
};
struct And {
  template <class T>
  KOLO_INLINE static T of(T a, T b) {
    return a & b;
  }
};

template <class C>
struct Scaling {
  C before;
  C divisor;
  C after;
  bool divides;  // false: the divisor is 1, or a power of two that is already in `after`

  KOLO_INLINE explicit Scaling(const ReduceJob& job)
      : before((C)job.prescale), divisor((C)job.divisor), after((C)job.postscale), divides(job.divisor > 1) {
    if (divides && (job.divisor & (job.divisor - 1)) == 0 && job.postscale == 1.0) {
      after = 1 / divisor;  // exact, and so is the product: the same bits as a division
      divides = false;
    }
  }
  template <class V>
  KOLO_INLINE V first(V value) const {
    return value * before;
  }
  template <class V>
  KOLO_INLINE V last(V value) const {
    if (divides) value = value / divisor;
    return value * after;
  }
};

// Without a prescale.
template <class C>
struct ScalingAtEnd : Scaling<C> {
  using Scaling<C>::Scaling;
  template <class V>
  KOLO_INLINE V first(V value) const {
    return value;
  }
};

struct NoScaling {
  KOLO_INLINE explicit NoScaling(const ReduceJob&) {}
  template <class V>
  KOLO_INLINE V first(V value) const {
    return value;
  }
  template <class V>
  KOLO_INLINE V last(V value) const {
    return value;
  }
};

}  // namespace
}  // namespace kolo::kernels
