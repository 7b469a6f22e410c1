#include "kernels/scale_copy.h"

#include "kernels/host_kernels.h"
#include "kolo/error.h"

namespace kolo::kernels {
void scale_copy(const void* in, DType in_type, void* out, DType out_type, std::size_t count, double scale,
                bool streaming) {
  if (in_type != out_type && !(is_floating(in_type) && is_floating(out_type))) {
    throw UsageError("scale_copy: cannot cast " + std::string(name_of(in_type)) + " to " +
                     std::string(name_of(out_type)));
  }
  if (scale != 1.0 && !is_floating(in_type)) {
    throw UsageError("scale_copy: " + std::string(name_of(in_type)) + " cannot be scaled");
  }
  if (count == 0 || (in == out && in_type == out_type && scale == 1.0)) return;
  host_kernels().scale_copy({static_cast<const std::byte*>(in), static_cast<std::byte*>(out), in_type, out_type, count,
                             size_of(in_type), scale, streaming});
}

}  // namespace kolo::kernels
