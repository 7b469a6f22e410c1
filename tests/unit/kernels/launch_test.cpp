// What launches check, and what they touch: on the simulated device.
#include <cmath>
#include <limits>

#include "kernels/adamw.h"
#include "kernels/find_nonfinite.h"
#include "kernels/images.h"
#include "kernels/pack.h"
#include "kernels/scale.h"
#include "kernels/sgd.h"
#include "kolo/error.h"
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
  TensorTable three(runtime, 0, std::vector<TensorPlace>{{0, 4}}, {.columns = 3});
  const std::vector<void*> good(3, memory.data()), odd{memory.data(), memory.data(), memory.data() + 2},
      none{memory.data(), memory.data(), nullptr};
  const auto launch = [&](std::span<void* const> addresses) {
    return UpdateLaunch{image, three, addresses, 1, stream.view()};
  };
  const SgdTerms plain{0.1}, momentum{0.1, 0.9};
  EXPECT_THROW(update_sgd(launch(good), plain), UsageError) << "without momentum it takes two columns";
  EXPECT_THROW(update_sgd(launch(odd), momentum), UsageError) << "misaligned momentum";
  EXPECT_THROW(update_sgd(launch({good.data(), 2}), momentum), UsageError) << "an address is missing";
  EXPECT_THROW(update_sgd(launch(none), momentum), UsageError) << "no memory for the momentum";
  EXPECT_THROW(update_adamw(launch(good), {}), UsageError) << "AdamW takes four columns";
  EXPECT_THROW(find_nonfinite(launch(good), nullptr), UsageError) << "a search takes one column";
  EXPECT_EQ(device.launches("kolo_sgd") + device.launches("kolo_adamw") + device.launches("kolo_find_nonfinite"), 0);
  update_sgd(launch(good), momentum);
  EXPECT_EQ(device.launches("kolo_sgd"), 1);
  device.drain();
}

// Without an edge, whatever an update reads or writes must not be written by another stream; what lies behind its
// tensors may, and those that have no gradient.
TEST_F(Launch, WhatAnUpdateTouchesIsWatched) {
  const auto weights = on_device(ramp(1)), momenta = on_device(ramp(0)), bucket = on_device(std::vector<float>(1024)),
             left_out = on_device(ramp(1));
  TensorTable table(runtime, 0, std::vector<TensorPlace>{{0, kCount}, {0, kCount}}, {.columns = 3});
  const std::vector<void*> addresses{bucket.data(),   nullptr,        weights.data(),
                                     left_out.data(), momenta.data(), left_out.data()};
  const UpdateLaunch launch{image, table, addresses, 0.5, stream.view()};
  const SgdTerms terms{0.1, 0.9};
  cuda::OwnStream other(runtime, 0);
  std::byte* const touched[] = {weights.data() + 4 * (kCount - 1), momenta.data(), bucket.data() + 4 * (kCount - 1)};
  for (std::byte* const memory : touched) {
    update_sgd(launch, terms);
    cuda::fill_zero(*runtime, memory, 4, other.view());
    device.drain();
    const auto violations = device.take_violations();
    ASSERT_FALSE(violations.empty()) << static_cast<const void*>(memory);
    EXPECT_EQ(violations.front().fault, kolo::test::Fault::race);
    ASSERT_EQ(runtime->api().stream_synchronize(stream.view().handle), cuda::kSuccess);
    ASSERT_EQ(runtime->api().stream_synchronize(other.view().handle), cuda::kSuccess);
  }
  update_sgd(launch, terms);
  cuda::fill_zero(*runtime, bucket.data() + 4 * kCount, 4, other.view());
  cuda::fill_zero(*runtime, left_out.data(), 4, other.view());
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
