#include "unit/kernels/host_table.h"

namespace kolo::kernels::test {

void run(const DeviceKernel& kernel, const void* arguments, const Grid& grid) {
  kernel.run_on_host(arguments, grid.blocks, grid.threads);
}

}  // namespace kolo::kernels::test
