#pragma once
// One element of scale_copy() on a device: the numbers of kernels/scale_copy.h.
#include <type_traits>

#include "kernels/device_element.h"

namespace kolo::kernels {

// In fp64 if a type is f64 and neither is 16-bit, else in fp32.
template <class In, class Out>
struct ScaleElement {
  static constexpr bool kNarrow = sizeof(typename In::Bits) == 2 || sizeof(typename Out::Bits) == 2;
  static constexpr bool kWide = std::is_same_v<In, F64> || std::is_same_v<Out, F64>;
  using Compute = std::conditional_t<kWide && !kNarrow, double, float>;

  KOLO_HOST_DEVICE explicit ScaleElement(double factor) : scale(static_cast<Compute>(factor)) {}
  KOLO_HOST_DEVICE typename Out::Value operator()(typename In::Value value) const {
    return static_cast<typename Out::Value>(static_cast<Compute>(value) * scale);
  }
  Compute scale;
};

// As it is.
template <class E>
struct CopyElement {
  KOLO_HOST_DEVICE typename E::Value operator()(typename E::Value value) const { return value; }
};

}  // namespace kolo::kernels
