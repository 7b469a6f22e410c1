#pragma once
// What the launches of optimizer steps check and do alike.
#include <span>
#include <string>
#include <string_view>

#include "cuda/kernel.h"
#include "kernels/launch_shape.h"
#include "kernels/tensor_table.h"
#include "kernels/update_state.h"
#include "kolo/error.h"

namespace kolo::kernels {

struct UpdateCheck {
  std::string_view what;    // "sgd"
  std::size_t columns = 0;  // that it takes
};

inline void check_update(const UpdateCheck& check, const TensorTable& table, std::span<void* const> arrays,
                         const Gradients& gradients) {
  const std::string what(check.what);
  if (gradients.dtype != DType::f32 && gradients.dtype != DType::f16 && gradients.dtype != DType::bf16) {
    throw UsageError(what + ": gradients of " + std::string(name_of(gradients.dtype)) + "; it takes f32, f16 and bf16");
  }
  if (gradients.state == nullptr) throw UsageError(what + ": no state; begin_update() makes what it holds");
  if (table.columns() != check.columns) {
    throw UsageError(what + ": the table has " + std::to_string(table.columns()) + " columns, these terms take " +
                     std::to_string(check.columns));
  }
  const auto misaligned = [](const void* address, std::size_t bytes) {
    return reinterpret_cast<std::uintptr_t>(address) % bytes != 0;
  };
  bool all = !misaligned(gradients.bucket, size_of(gradients.dtype));
  for (const void* array : arrays) all = all && !misaligned(array, sizeof(float));
  if (!all) throw UsageError(what + ": an address is not aligned to its elements");
}

template <class Arguments>
void launch_update(cuda::KernelImage& image, std::string_view kernel, const TensorTable& table,
                   const Arguments& arguments, Stream stream) {
  if (table.blocks() != 0) image.launch({kernel, table.blocks(), kThreads}, arguments, stream);
}

}  // namespace kolo::kernels
