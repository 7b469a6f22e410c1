// kolo's own kernels on the simulated device: they compute there, and what they read and write is known.
#include "support/device/kolo_kernels.h"

#include <array>

#include "kernels/pack.h"
#include "kernels/scale.h"
#include "unit/cuda/device_programs.h"

namespace kolo::test {
namespace {

constexpr char kImage[] = "stands for device code";
constexpr std::array<float, 5> kValues{1, -2, 3, 0.5F, 8};

// Two tensors, of 2 and 3 elements, in x; y is their bucket, in which they begin at elements 0 and 4.
struct Pack {
  explicit Pack(Rig& of) : rig(of), image(of.runtime, kImage) {
    add_kolo_kernels(rig.device);
    rig.device.write(rig.x.data(), kValues.data(), sizeof kValues);
  }
  void operator()(Stream stream) {
    void* const tensors[] = {rig.x.data(), rig.x.data() + 2 * sizeof(float)};
    kernels::pack(image, table, tensors, {.bucket = rig.y.data(), .scale = 0.5}, stream);
  }
  static constexpr std::array<kernels::TensorPlace, 2> kPlaces{{{0, 2}, {4, 3}}};
  Rig& rig;
  cuda::KernelImage image;
  kernels::TensorTable table{rig.runtime, 0, kPlaces};
};

TEST(KoloKernels, ComputeOnTheSimulatedDevice) {
  SimulatedDevice device;
  Rig rig(device);
  Pack pack(rig);
  pack(rig.a.view());
  device.drain();
  std::array<float, 7> found{};
  device.peek(found.data(), rig.y.data(), sizeof found);
  EXPECT_EQ(found[0], 0.5F);
  EXPECT_EQ(found[1], -1.0F);
  EXPECT_EQ(found[4], 1.5F);
  EXPECT_EQ(found[5], 0.25F);
  EXPECT_EQ(found[6], 4.0F);
  EXPECT_EQ(device.launches("kolo_pack"), 1);
}

TEST(KoloKernels, AnUpdateOfATensorThatDoesNotWaitForThePack) {
  expect_reported(Fault::race, [](Rig& rig, bool right) {
    Pack pack(rig);
    pack(rig.a.view());
    if (right) rig.order(rig.b.view(), rig.a.view());
    cuda::fill_zero(*rig.runtime, rig.x.data() + 4 * sizeof(float), 4, rig.b.view());
    rig.device.drain();
  });
}

TEST(KoloKernels, ACollectiveThatDoesNotWaitForThePack) {
  expect_reported(Fault::race, [](Rig& rig, bool right) {
    Pack pack(rig);
    pack(rig.a.view());
    if (right) rig.order(rig.b.view(), rig.a.view());
    rig.device.enqueue(rig.b.view().handle, {.what = "all_reduce", .ranges = {{rig.y.data() + 24, 4, Access::read}}});
    rig.device.drain();
  });
}

TEST(KoloKernels, ScalingThatDoesNotWaitForTheCollective) {
  expect_reported(Fault::race, [](Rig& rig, bool right) {
    Pack pack(rig);
    rig.device.enqueue(rig.b.view().handle,
                       {.what = "all_reduce", .ranges = {{rig.y.data(), Rig::kBytes, Access::write}}});
    if (right) rig.order(rig.a.view(), rig.b.view());
    kernels::scale(pack.image, {.data = rig.y.data(), .count = 7, .factor = 0.5}, rig.a.view());
    rig.device.drain();
  });
}

}  // namespace
}  // namespace kolo::test
