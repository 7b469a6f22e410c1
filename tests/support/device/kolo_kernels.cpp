#include "support/device/kolo_kernels.h"

#include <string>

#include "kernels/device_kernels.h"

namespace kolo::test {

void add_kolo_kernels(SimulatedDevice& device) {
  for (const kernels::DeviceKernel& kernel : kernels::device_kernels()) {
    const auto ranges = [touches = kernel.touches](const void* arguments) {
      std::vector<Range> found;
      for (const kernels::Touched& touched : touches(arguments)) {
        found.push_back({touched.memory, touched.bytes, touched.written ? Access::write : Access::read});
      }
      return found;
    };
    device.add_kernel(std::string(kernel.name), kernel.argument_bytes, kernel.run_on_host, ranges);
  }
}

}  // namespace kolo::test
