#include "kernels/adamw.h"

#include <cmath>

#include "kernels/adamw_arguments.h"

namespace kolo::kernels {

void update_adamw(const UpdateLaunch& launch, const AdamwTerms& terms) {
  check_update("adamw", 4, launch);
  const auto number = static_cast<double>(terms.number);
  const AdamwArguments arguments{launch.table.with(launch.addresses, launch.stream),
                                 launch.leave,
                                 static_cast<float>(launch.gradient_scale),
                                 static_cast<float>(terms.lr / (1 - std::pow(terms.beta1, number))),
                                 static_cast<float>(1 - terms.lr * terms.weight_decay),
                                 static_cast<float>(terms.beta1),
                                 static_cast<float>(1 - terms.beta1),
                                 static_cast<float>(terms.beta2),
                                 static_cast<float>(1 - terms.beta2),
                                 static_cast<float>(std::sqrt(1 - std::pow(terms.beta2, number))),
                                 static_cast<float>(terms.epsilon)};
  launch_update("kolo_adamw", launch, arguments);
}

}  // namespace kolo::kernels
