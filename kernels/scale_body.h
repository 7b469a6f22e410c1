#pragma once
// What one thread does of scale().
#include "kernels/device_run.h"
#include "kernels/floating.h"
#include "kernels/scale_arguments.h"
#include "kernels/scale_element.h"

namespace kolo::kernels {

KOLO_HOST_DEVICE inline void scale_body(const ScaleArguments& arguments, const Position& at) {
  with_floating(arguments.dtype, [&](auto element) {
    using E = decltype(element);
    transform_run<E, E>(arguments.data, arguments.data, arguments.count, ScaleElement<E, E>(arguments.factor),
                        share_of_grid(at));
  });
}

}  // namespace kolo::kernels
