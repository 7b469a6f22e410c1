#pragma once
// How a launch picks the code for a type.
#include "base/host_device.h"
#include "kernels/device_element.h"
#include "kolo/types.h"

namespace kolo::kernels {

// visit(F32{}) for f32, and so on, for floats of at most 32 bits; nothing for other types.
template <class Visitor>
KOLO_HOST_DEVICE void with_small_floating(DType dtype, const Visitor& visit) {
  switch (dtype) {
    case DType::f32:
      return visit(F32{});
    case DType::f16:
      return visit(F16{});
    case DType::bf16:
      return visit(BF16{});
    default:
      return;
  }
}

// The same, and for f64.
template <class Visitor>
KOLO_HOST_DEVICE void with_floating(DType dtype, const Visitor& visit) {
  if (dtype == DType::f64) return visit(F64{});
  with_small_floating(dtype, visit);
}

// The same for what is moved as it is: by the size of an element, 1, 2, 4 or 8.
template <class Visitor>
KOLO_HOST_DEVICE void with_plain(unsigned element_bytes, const Visitor& visit) {
  switch (element_bytes) {
    case 1:
      return visit(Plain<std::uint8_t>{});
    case 2:
      return visit(Plain<std::uint16_t>{});
    case 4:
      return visit(Plain<std::uint32_t>{});
    case 8:
      return visit(Plain<std::uint64_t>{});
    default:
      return;
  }
}

}  // namespace kolo::kernels
