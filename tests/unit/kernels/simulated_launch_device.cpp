#include "support/device/kolo_kernels.h"
#include "support/device/simulated_device.h"
#include "unit/kernels/launch_device.h"

namespace kolo::kernels::test {
namespace {

class Simulated final : public LaunchDevice {
 public:
  Simulated() { kolo::test::add_kolo_kernels(device_); }
  [[nodiscard]] cuda::RuntimePtr runtime() const override {
    return std::make_shared<const cuda::Runtime>(device_.api());
  }
  [[nodiscard]] const void* image() const override { return "the simulated device takes anything"; }
  void write(std::byte* to, const void* from, std::size_t bytes, Stream /*stream*/) override {
    device_.drain();
    device_.write(to, from, bytes);
  }
  void read(void* to, const std::byte* from, std::size_t bytes, Stream /*stream*/) override {
    device_.drain();
    device_.peek(to, from, bytes);
  }

 private:
  kolo::test::SimulatedDevice device_{{.devices = 2, .seed = 11}};
};

}  // namespace

std::unique_ptr<LaunchDevice> make_launch_device() { return std::make_unique<Simulated>(); }

}  // namespace kolo::kernels::test
