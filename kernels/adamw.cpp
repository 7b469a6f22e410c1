#include "kernels/adamw.h"

#include "kernels/adamw_arguments.h"
#include "kernels/update_launch.h"

namespace kolo::kernels {

void update_adamw(cuda::KernelImage& image, TensorTable& table, std::span<void* const> arrays, const AdamwStep& step,
                  Stream stream) {
  check_update({"adamw", 3}, table, arrays, step.gradients);
  const AdamwArguments arguments{table.with(arrays, stream),      step.gradients,
                                 static_cast<float>(step.lr),     static_cast<float>(1 - step.lr * step.weight_decay),
                                 static_cast<float>(step.beta1),  static_cast<float>(1 - step.beta1),
                                 static_cast<float>(step.beta2),  static_cast<float>(1 - step.beta2),
                                 static_cast<float>(step.epsilon)};
  launch_update(image, "kolo_adamw", table, arguments, stream);
}

}  // namespace kolo::kernels
