// A device without memory for kolo's buckets, where the program's allocator keeps some that it does not use.
#include <gmock/gmock.h>

#include <atomic>
#include <tuple>

#include "multirank/device/trainer.h"

namespace kolo::test {
namespace {

constexpr std::size_t kBucket = 32 * 1024;  // what is smaller can still be had

// Of the table of functions below, which has no place for data. One world at a time.
struct FullDevice {
  static inline cuda::RuntimeApi real;
  static inline std::atomic<bool> full;  // device 0
  static cuda::Status allocate(void** memory, std::size_t bytes) {
    int device = -1;
    real.get_device(&device);
    return device == 0 && full && bytes >= kBucket ? cuda::kOutOfMemory : real.allocate(memory, bytes);
  }
  // From here on, for all ranks. What a program has, it has before.
  static void fill(Context& context) {
    context.communicator().barrier(std::chrono::seconds(20));
    full = true;
    context.communicator().barrier(std::chrono::seconds(20));
  }
  static cuda::RuntimeApi mutate(const cuda::RuntimeApi& api) {
    real = api;
    full = false;
    cuda::RuntimeApi changed = api;
    changed.allocate = &allocate;
    return changed;
  }
};

std::vector<std::tuple<const char*, DeviceWorld::Options>> worlds() {
  auto config = quick();
  config.nccl_registration = false;
  std::vector<std::tuple<const char*, DeviceWorld::Options>> all;
  const auto add = [&](const char* name, const Hosts& hosts, DeviceReduction reduction) {
    config.device_reduction = reduction;
    all.emplace_back(name, DeviceWorld::Options{.hosts = hosts, .config = config});
  };
  add("hosts", {0, 0}, DeviceReduction::host);
  if (device_reductions().size() == 1) return all;
  add("nccl", {0, 0}, DeviceReduction::nccl);
  add("hierarchical", {0, 0, 1}, DeviceReduction::hierarchical);
  add("staged", {0, 0, 1}, DeviceReduction::mixed);
  return all;
}

class DeviceMemory : public testing::TestWithParam<std::tuple<const char*, DeviceWorld::Options>> {};
INSTANTIATE_TEST_SUITE_P(Ways, DeviceMemory, testing::ValuesIn(worlds()),
                         [](const auto& one) { return std::string(std::get<0>(one.param)); });

TEST_P(DeviceMemory, WhatTheProgramKeepsIsReleasedAndAskedForAgain) {
  DeviceWorld world(std::get<1>(GetParam()), FullDevice::mutate);
  std::atomic<int> releases = 0;
  world.run([&](Context& context) {
    DeviceModel model(world, context.rank(), {100, 20000}, false);
    auto options = model.options();
    options.release_cached_memory = [&, rank = context.rank()] {
      ++releases;
      if (rank == 0) FullDevice::full = false;
    };
    auto reducer = context.engine().make_reducer(model.table(), options);
    FullDevice::fill(context);
    for (std::size_t index = 0; index < 2; ++index) {
      model.make(index, 3);
      reducer->contribute(index, model.data(index), model.backward());
    }
    reducer->finish(model.user());
    const auto found = model.use(reducer->gradient(1));
    world.runtime()->api().stream_synchronize(model.user().handle);
    EXPECT_EQ(far_from(3, *found), 0);
  });
  EXPECT_GE(releases, std::get<1>(GetParam()).config.device_reduction == DeviceReduction::host ? 1 : 2)
      << "all that ask";
}

TEST_P(DeviceMemory, WithoutAnyTheFirstStepIsAnError) {
  DeviceWorld world(std::get<1>(GetParam()), FullDevice::mutate);
  world.run([&](Context& context) {
    Trainer trainer(world, context, {100, 20000});
    FullDevice::fill(context);
    EXPECT_THROW(trainer.step(1), Error);
    trainer.synchronize();
  });
}

}  // namespace
}  // namespace kolo::test
