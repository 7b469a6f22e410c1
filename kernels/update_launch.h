#pragma once
// What the launches of optimizer steps take, check and do alike.
#include <span>
#include <string>
#include <string_view>

#include "cuda/kernel.h"
#include "kernels/launch_shape.h"
#include "kernels/leave.h"
#include "kernels/tensor_table.h"
#include "kolo/error.h"
#include "kolo/types.h"

namespace kolo::kernels {

// `addresses`: the gradients of all tensors, behind them the weights, behind these what else the optimizer keeps for
// each; all fp32. Where the gradient is null the tensor is left as it is.
struct UpdateLaunch {
  cuda::KernelImage& image;
  TensorTable& table;
  std::span<void* const> addresses;
  double gradient_scale = 1;
  Stream stream;
  Leave leave{};  // `skip` as in StepBatch
};

inline void check_update(std::string_view what, std::size_t columns, const UpdateLaunch& launch) {
  if (launch.table.columns() != columns) {
    throw UsageError(std::string(what) + ": the table has " + std::to_string(launch.table.columns()) +
                     " columns, this optimizer needs " + std::to_string(columns));
  }
  for (const void* address : launch.addresses) {
    if (reinterpret_cast<std::uintptr_t>(address) % sizeof(float) != 0) {
      throw UsageError(std::string(what) + ": an address is not aligned to its elements");
    }
  }
  const std::size_t tensors = launch.addresses.size() / columns;
  for (std::size_t i = 0; tensors != 0 && i < launch.addresses.size(); ++i) {
    if (launch.addresses[i] == nullptr && launch.addresses[i % tensors] != nullptr) {
      throw UsageError(std::string(what) + ": tensor " + std::to_string(i % tensors) +
                       " has a gradient, but no weight or no optimizer state");
    }
  }
}

template <class Arguments>
void launch_update(std::string_view kernel, const UpdateLaunch& launch, const Arguments& arguments) {
  if (launch.table.blocks() == 0) return;
  launch.image.launch({kernel, launch.table.blocks(), kThreads}, arguments, launch.stream);
}

}  // namespace kolo::kernels
