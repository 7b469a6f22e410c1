#include "kernels/find_nonfinite.h"

#include "kernels/find_nonfinite_arguments.h"

namespace kolo::kernels {

void find_nonfinite(const UpdateLaunch& launch, float* flag) {
  check_update("find_nonfinite", 1, launch);
  const FindNonfiniteArguments arguments{launch.table.with(launch.addresses, launch.stream), flag};
  launch_update("kolo_find_nonfinite", launch, arguments);
}

}  // namespace kolo::kernels
