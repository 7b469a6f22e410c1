#include "kernels/sgd.h"

#include "kernels/sgd_arguments.h"

namespace kolo::kernels {

void update_sgd(const UpdateLaunch& launch, const SgdTerms& terms) {
  const bool with_momentum = terms.momentum != 0;
  check_update("sgd", with_momentum ? 3 : 2, launch);
  const SgdArguments arguments{launch.table.with(launch.addresses, launch.stream),
                               launch.leave,
                               static_cast<float>(launch.gradient_scale),
                               static_cast<float>(terms.lr),
                               static_cast<float>(terms.momentum),
                               static_cast<float>(1 - terms.dampening),
                               static_cast<float>(terms.weight_decay),
                               with_momentum,
                               terms.weight_decay != 0,
                               terms.nesterov,
                               terms.first};
  launch_update("kolo_sgd", launch, arguments);
}

}  // namespace kolo::kernels
