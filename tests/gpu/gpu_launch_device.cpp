#include "gpu/gpu.h"
#include "kernels/device_image.h"
#include "unit/kernels/launch_device.h"

namespace kolo::kernels::test {
namespace {

class Gpu final : public LaunchDevice {
 public:
  [[nodiscard]] cuda::RuntimePtr runtime() const override { return runtime_; }
  [[nodiscard]] const void* image() const override { return device_image(); }
  void write(std::byte* to, const void* from, std::size_t bytes, Stream stream) override {
    copy(to, from, bytes, stream);
  }
  void read(void* to, const std::byte* from, std::size_t bytes, Stream stream) override {
    copy(to, from, bytes, stream);
  }

 private:
  void copy(void* to, const void* from, std::size_t bytes, Stream stream) const {
    cuda::copy(*runtime_, to, from, bytes, stream);
    runtime_->check(runtime_->api().stream_synchronize(stream.handle), "cudaStreamSynchronize");
  }

  cuda::RuntimePtr runtime_ = kolo::test::gpu_runtime();
};

}  // namespace

std::unique_ptr<LaunchDevice> make_launch_device() { return std::make_unique<Gpu>(); }

}  // namespace kolo::kernels::test
