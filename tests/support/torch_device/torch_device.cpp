#include "support/torch_device/torch_device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "support/torch_device/backend.h"

namespace kolo::test {
namespace {

std::mutex installing;
std::shared_ptr<TorchBackend> the_backend;

// Before main(): autograd's threads are made for the devices that there are when anybody first runs backward, on the
// CPU too, and never again.
const bool registered = register_with_torch();

std::uint64_t next_generation() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

TorchBackend::TorchBackend(SimulatedDevice& simulated)
    : device(simulated),
      api(simulated.api()),
      generation(next_generation()),
      streams(api, generation),
      allocator(device, api, streams, generation) {}

std::shared_ptr<TorchBackend> find_backend() noexcept {
  const std::scoped_lock held(installing);
  return the_backend;
}

std::shared_ptr<TorchBackend> backend() {
  auto found = find_backend();
  TORCH_CHECK(found != nullptr, "there is no TorchDevice (any more)");
  return found;
}

void check(cuda::Status status, const char* what) {
  TORCH_CHECK(status == cuda::kSuccess, "simulated device: ", what, ": status ", status);
}

TorchDevice::TorchDevice(SimulatedDevice& device) : backend_(std::make_shared<TorchBackend>(device)) {
  TORCH_CHECK(registered, "torch does not know of the simulated device");
  const std::scoped_lock held(installing);
  TORCH_CHECK(the_backend == nullptr, "there is a TorchDevice already");
  the_backend = backend_;
}

TorchDevice::~TorchDevice() {
  const std::size_t left = backend_->allocator.close();
  EXPECT_EQ(left, 0U) << "tensors outlive their device";
  backend_->streams.destroy_all();
  const std::scoped_lock held(installing);
  the_backend = nullptr;
}

c10::Stream TorchDevice::make_stream(int index) { return backend_->streams.make(index); }
void TorchDevice::ignore_records() { backend_->allocator.ignore_records(); }
void TorchDevice::hand_out_default_streams() { backend_->streams.hand_out_default_streams(); }
int TorchDevice::records() const { return backend_->allocator.records(); }
int TorchDevice::reused() const { return backend_->allocator.reused(); }
std::size_t TorchDevice::tensors() const { return backend_->allocator.live(); }

}  // namespace kolo::test
