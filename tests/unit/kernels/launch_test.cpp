// What launches check, and what they touch: on the simulated device.
#include <cmath>
#include <limits>

#include "kernels/adamw.h"
#include "kernels/begin_update.h"
#include "kernels/find_nonfinite.h"
#include "kernels/images.h"
#include "kernels/pack.h"
#include "kernels/scale.h"
#include "kernels/sgd.h"
#include "kolo/error.h"
#include "torch/sgd_update.h"
#include "unit/kernels/launch_fixture.h"
#include "unit/kernels/ramp.h"
#include "unit/kernels/reference.h"

namespace kolo::kernels::test {
namespace {

TEST_F(Launch, PackRefusesWhatScaleCopyRefuses) {
  const auto tensor = on_device(std::vector<std::int32_t>(4)), bucket = on_device(std::vector<std::int32_t>(4));
  TensorTable table(runtime, 0, std::vector<TensorPlace>{{0, 4}});
  const std::vector<void*> tensors{tensor.data()};
  for (const Transfer& transfer :
       {Transfer{bucket.data(), DType::i32, DType::f32, 1.0}, Transfer{bucket.data(), DType::i32, DType::i64, 1.0},
        Transfer{bucket.data(), DType::i32, DType::i32, 0.5}}) {
    EXPECT_THROW(pack(image, table, tensors, transfer, stream.view()), UsageError);
    EXPECT_THROW(unpack(image, table, tensors, transfer, stream.view()), UsageError);
  }
  pack(image, table, tensors, {bucket.data(), DType::i32, DType::i32, 1.0}, stream.view());
  EXPECT_EQ(device.launches("kolo_pack"), 1);
  device.drain();
}

TEST_F(Launch, UpdatesRefuseWhatTheyDoNotTake) {
  const auto memory = on_device(std::vector<float>(64));
  auto* shared = reinterpret_cast<UpdateState*>(memory.data());
  TensorTable two(runtime, 0, std::vector<TensorPlace>{{0, 4}}, {.columns = 2});
  const std::vector<void*> arrays{memory.data(), memory.data()}, odd{memory.data(), memory.data() + 2};
  const auto sgd = [&](const Gradients& gradients, double momentum, std::span<void* const> used) {
    update_sgd(image, two, used, {gradients, 0.1, momentum, 0, 0, false}, stream.view());
  };
  const Gradients good{memory.data(), shared};
  EXPECT_THROW(sgd(good, 0, arrays), UsageError) << "without momentum it takes one column";
  EXPECT_THROW(sgd({memory.data(), nullptr}, 0.9, arrays), UsageError) << "no state";
  EXPECT_THROW(sgd(good, 0.9, odd), UsageError) << "misaligned array";
  EXPECT_THROW(sgd({memory.data() + 1, shared}, 0.9, arrays), UsageError) << "misaligned bucket";
  EXPECT_THROW(sgd({memory.data(), shared, nullptr, nullptr, 1, DType::f64}, 0.9, arrays), UsageError) << "f64";
  EXPECT_THROW(update_adamw(image, two, arrays, {good}, stream.view()), UsageError) << "AdamW takes three columns";
  EXPECT_EQ(device.launches("kolo_sgd") + device.launches("kolo_adamw"), 0);
}

// Without an edge, whatever an update reads or writes must not be written by another stream; what lies between its
// tensors may.
TEST_F(Launch, WhatAnUpdateTouchesIsWatched) {
  const auto weights = on_device(ramp(1)), momenta = on_device(ramp(0)), bucket = on_device(std::vector<float>(1024)),
             skip = on_device(std::vector<std::uint32_t>(1)), scale = on_device(std::vector<float>{0.5F}),
             state = on_device(std::vector<std::uint32_t>(4));
  TensorTable table(runtime, 0, std::vector<TensorPlace>{{0, kCount}}, {.columns = 2});
  const std::vector<void*> arrays{weights.data(), momenta.data()};
  const Gradients gradients{bucket.data(), reinterpret_cast<const UpdateState*>(state.data()),
                            reinterpret_cast<const std::uint32_t*>(skip.data()),
                            reinterpret_cast<const float*>(scale.data())};
  cuda::OwnStream other(runtime, 0);
  std::byte* const touched[] = {weights.data() + 4 * (kCount - 1),
                                momenta.data(),
                                bucket.data() + 4 * (kCount - 1),
                                skip.data(),
                                scale.data(),
                                state.data()};
  for (std::byte* const memory : touched) {
    update_sgd(image, table, arrays, {gradients, 0.1, 0.9, 0, 0, false}, stream.view());
    cuda::fill_zero(*runtime, memory, 4, other.view());
    device.drain();
    const auto violations = device.take_violations();
    ASSERT_FALSE(violations.empty()) << static_cast<const void*>(memory);
    EXPECT_EQ(violations.front().fault, kolo::test::Fault::race);
    ASSERT_EQ(runtime->api().stream_synchronize(stream.view().handle), cuda::kSuccess);
    ASSERT_EQ(runtime->api().stream_synchronize(other.view().handle), cuda::kSuccess);
  }
  update_sgd(image, table, arrays, {gradients, 0.1, 0.9, 0, 0, false}, stream.view());
  cuda::fill_zero(*runtime, bucket.data() + 4 * kCount, 4, other.view());
  device.drain();
  EXPECT_TRUE(device.violations().empty());
}

TEST_F(Launch, WithoutDeviceCodeTheErrorSaysSo) {
  cuda::KernelImage none(runtime, nullptr);
  const auto data = on_device(std::vector<float>(4));
  EXPECT_THROW(scale(none, {data.data(), 4, DType::f32, 0.5}, stream.view()), UsageError);
}

TEST_F(Launch, NothingIsScaledByNoLaunch) {
  const auto data = on_device(ramp(1));
  scale(image, {data.data(), 0, DType::f32, 1.0 / 3}, stream.view());
  EXPECT_EQ(device.launches("kolo_scale"), 0);
  scale(image, {data.data(), kCount, DType::f32, 1.0 / 3}, stream.view());
  EXPECT_EQ(device.launches("kolo_scale"), 1);
  EXPECT_THROW(scale(image, {data.data(), kCount, DType::i32, 0.5}, stream.view()), UsageError);
  device.drain();
}

TEST_F(Launch, ImagesRefuseWhatTheyDoNotTake) {
  ImageBatch batch;
  batch.images = batch.height = batch.width = 2;
  batch.dtype = DType::f64;
  EXPECT_THROW(normalize_images(image, batch, stream.view()), UsageError);
  batch.dtype = DType::f32;
  batch.images = batch.height = batch.width = 2000;
  EXPECT_THROW(normalize_images(image, batch, stream.view()), UsageError) << "8e9 pixels";
}

}  // namespace
}  // namespace kolo::kernels::test
