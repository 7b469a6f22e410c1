#include "kernels/sgd.h"

#include "kernels/sgd_arguments.h"
#include "kernels/update_launch.h"

namespace kolo::kernels {

void update_sgd(cuda::KernelImage& image, TensorTable& table, std::span<void* const> arrays, const SgdStep& step,
                Stream stream) {
  const bool with_momentum = step.momentum != 0;
  check_update({"sgd", with_momentum ? 2u : 1u}, table, arrays, step.gradients);
  const SgdArguments arguments{table.with(arrays, stream),
                               step.gradients,
                               static_cast<float>(step.lr),
                               static_cast<float>(step.momentum),
                               static_cast<float>(1 - step.dampening),
                               static_cast<float>(step.weight_decay),
                               with_momentum,
                               step.weight_decay != 0,
                               step.nesterov};
  launch_update(image, "kolo_sgd", table, arguments, stream);
}

}  // namespace kolo::kernels
