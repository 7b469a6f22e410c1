#pragma once
// A training program that runs on ranks with a CPU each, and on ranks with a simulated device each.
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <vector>

#include "kolo/torch/distributed_optimizer.h"
#include "multirank/device/device_world.h"
#include "support/torch_device/net.h"
#include "support/torch_device/torch_device.h"

namespace kolo::test {

// A stream of the rank's device. On the CPU, where everything is done when it is called, it does nothing.
class UserStream {
 public:
  UserStream() = default;
  explicit UserStream(const c10::Stream& stream) : stream_(stream) {}

  // What runs in this scope is enqueued here.
  [[nodiscard]] c10::OptionalStreamGuard enter() const { return c10::OptionalStreamGuard(stream_); }
  // What is enqueued here from now on comes after what is in `earlier` by now.
  void wait_for(const UserStream& earlier) const {
    if (!stream_.has_value()) return;
    c10::Event event(stream_->device_type());
    event.record(*earlier.stream_);
    event.block(*stream_);
  }
  void synchronize() const {
    if (stream_.has_value()) stream_->synchronize();
  }
  [[nodiscard]] void* handle() const { return stream_.has_value() ? stream_->native_handle() : nullptr; }

 private:
  std::optional<c10::Stream> stream_;
};

// One rank, and where it computes.
class Place {
 public:
  explicit Place(Context& of) : context(of) {}
  Place(Context& of, TorchDevice& torch_device)
      : context(of), device(TorchDevice::at(of.rank())), torch_device_(&torch_device) {}

  Context& context;
  const c10::Device device{c10::kCPU};

  // The default stream, and new ones.
  [[nodiscard]] UserStream main() const {
    return torch_device_ == nullptr ? UserStream() : UserStream(c10::Stream(c10::Stream::DEFAULT, device));
  }
  [[nodiscard]] UserStream side() const {
    return torch_device_ == nullptr ? UserStream() : UserStream(torch_device_->make_stream(device.index()));
  }

 private:
  TorchDevice* torch_device_ = nullptr;
};

using Tensors = std::vector<at::Tensor>;
using TorchProgram = std::function<Tensors(Place&)>;  // what a rank has in the end, on the CPU

// Several buckets.
inline DistributedOptions small_buckets_of_tensors() {
  DistributedOptions options;
  options.bucket_bytes = 256;
  return options;
}

inline std::vector<Tensors> run_on_cpus(int ranks, const TorchProgram& program) {
  at::set_num_threads(1);
  std::vector<Tensors> results(static_cast<std::size_t>(ranks));
  run_world(ranks, quick(), [&](Context& context) {
    Place place(context);
    results[static_cast<std::size_t>(context.rank())] = program(place);
  });
  return results;
}

// On each rank of a world that is looked at afterwards.
inline void run_on_devices(DeviceWorld& world, const std::function<void(Place&)>& program) {
  TorchDevice torch_device(world.device());
  world.run([&](Context& context) {
    Place place(context, torch_device);
    program(place);
  });
}

inline std::vector<Tensors> run_on_devices(const DeviceWorld::Options& options, const TorchProgram& program) {
  DeviceWorld world(options);
  std::vector<Tensors> results(options.hosts.size());
  run_on_devices(world,
                 [&](Place& place) { results[static_cast<std::size_t>(place.context.rank())] = program(place); });
  return results;
}

}  // namespace kolo::test
