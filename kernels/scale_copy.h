#pragma once
// out[i] = cast(in[i] * scale): the pack and unpack of one tensor. docs: kernels/README.md
#include <cstddef>

#include "kolo/types.h"

namespace kolo::kernels {

// `count` elements at any address; `in` and `out` must not overlap unless equal with equal types. Floating types may be
// cast into each other; others need in_type == out_type and scale == 1, else UsageError. Equal types with scale 1 are
// copied as bytes. Otherwise the product is formed in fp64 if a type is f64 and neither is 16-bit, else in fp32, and
// rounded to nearest even once.
// `streaming` uses non-temporal stores: for copies whose result is not read again while it is in cache.
void scale_copy(const void* in, DType in_type, void* out, DType out_type, std::size_t count, double scale,
                bool streaming = false);

}  // namespace kolo::kernels
