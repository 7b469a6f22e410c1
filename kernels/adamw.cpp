#include "kernels/adamw.h"

#include "base/adamw_factors.h"
#include "kernels/adamw_arguments.h"

namespace kolo::kernels {

void update_adamw(const UpdateLaunch& launch, const AdamwTerms& terms) {
  check_update("adamw", 4, launch);
  const base::AdamwFactors factors = base::adamw_factors(terms);
  const AdamwArguments arguments{launch.table.with(launch.addresses, launch.stream),
                                 launch.leave,
                                 static_cast<float>(launch.gradient_scale),
                                 static_cast<float>(factors.step),
                                 static_cast<float>(factors.shrink),
                                 static_cast<float>(factors.keep1),
                                 static_cast<float>(factors.take1),
                                 static_cast<float>(factors.keep2),
                                 static_cast<float>(factors.take2),
                                 static_cast<float>(factors.root),
                                 static_cast<float>(factors.epsilon)};
  launch_update("kolo_adamw", launch, arguments);
}

}  // namespace kolo::kernels
