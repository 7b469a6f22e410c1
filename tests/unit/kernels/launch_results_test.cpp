// The launches, as the engine makes them: that their arguments reach the kernels. On whatever device
// make_launch_device() gives: the simulated one, and a GPU in tests/gpu.
#include <cmath>
#include <limits>

#include "kernels/adamw.h"
#include "kernels/begin_update.h"
#include "kernels/find_nonfinite.h"
#include "kernels/images.h"
#include "kernels/pack.h"
#include "kernels/scale.h"
#include "kernels/sgd.h"
#include "torch/sgd_update.h"
#include "unit/kernels/launch_device.h"
#include "unit/kernels/ramp.h"
#include "unit/kernels/reference.h"

namespace kolo::kernels::test {
namespace {

TEST_F(LaunchResults, PackCastsAndUnpackCastsBack) {
  const std::vector<float> values = ramp(0.37F);
  const auto tensor = on_device(values), back = on_device(std::vector<float>(kCount)),
             bucket = on_device(std::vector<std::uint16_t>(2 * kCount, 0x4242));
  TensorTable table(runtime, 0, std::vector<TensorPlace>{{16, kCount}, {1024, 3}});
  const std::vector<void*> from{tensor.data(), nullptr}, to{back.data(), nullptr};
  pack(image, table, from, {bucket.data(), DType::f32, DType::bf16, 0.125}, stream.view());
  unpack(image, table, to, {bucket.data(), DType::f32, DType::bf16, 8.0}, stream.view());
  const auto packed = values_of<std::uint16_t>(bucket);
  const auto unpacked = values_of<float>(back);
  EXPECT_EQ(packed[15], 0x4242);
  for (std::size_t i = 1024; i < 1027; ++i) EXPECT_EQ(packed[i], 0) << "a tensor that is missing is zeros";
  EXPECT_EQ(packed[1027], 0x4242);
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::uint16_t expected = base::f32_to_bf16(values[i] * 0.125F);
    ASSERT_EQ(packed[16 + i], expected);
    ASSERT_EQ(unpacked[i], base::bf16_to_f32(expected) * 8.0F);
  }
}

TEST_F(LaunchResults, ScaleAverages) {
  const std::vector<float> values = ramp(1);
  const auto data = on_device(values);
  scale(image, {data.data(), kCount, DType::f32, 1.0 / 3}, stream.view());
  scale(image, {data.data(), 0, DType::f32, 1.0 / 3}, stream.view());
  const auto scaled = values_of<float>(data);
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(scaled[i], values[i] * static_cast<float>(1.0 / 3));
}

// A whole optimizer step twice: the first finds an infinite gradient, on the device alone, and changes nothing.
TEST_F(LaunchResults, AnInfiniteGradientSkipsTheStepOnTheDevice) {
  const std::vector<float> weights = ramp(0.01F), gradients = ramp(0.5F);
  std::vector<float> infinite = gradients;
  infinite[777] = std::numeric_limits<float>::infinity();
  const auto weight = on_device(weights), momentum = on_device(std::vector<float>(kCount, 99.0F)),
             good = on_device(gradients), bad = on_device(infinite),
             skips = on_device(std::vector<std::uint32_t>{0, 0}), state = on_device(std::vector<std::uint32_t>(4));
  TensorTable table(runtime, 0, std::vector<TensorPlace>{{0, kCount}}, {.columns = 2});
  const std::vector<void*> arrays{weight.data(), momentum.data()};
  for (int round = 0; round < 2; ++round) {
    const auto& bucket = round == 0 ? bad : good;
    auto* skip = reinterpret_cast<std::uint32_t*>(skips.data()) + round;
    auto* shared = reinterpret_cast<UpdateState*>(state.data());
    find_nonfinite(image, {bucket.data(), kCount, DType::f32}, skip, stream.view());
    begin_update(image, {shared, skip}, stream.view());
    SgdStep step{{bucket.data(), shared, skip, nullptr, 0.5F, DType::f32}, 0.1, 0.9, 0.5, 1e-3, true};
    update_sgd(image, table, arrays, step, stream.view());
  }
  std::vector<float> expected = weights, expected_momentum(kCount), scaled = gradients;
  for (float& gradient : scaled) gradient *= 0.5F;
  sgd_update(expected.data(), expected_momentum.data(), scaled.data(), kCount, {0.1, 0.9, 0.5, 1e-3, true, true});
  EXPECT_EQ(values_of<float>(weight), expected);
  EXPECT_EQ(values_of<float>(momentum), expected_momentum);
  EXPECT_EQ(values_of<std::uint32_t>(skips), (std::vector<std::uint32_t>{1, 0}));
  const auto counted = values_of<std::uint32_t>(state);
  EXPECT_EQ(counted[0], 1u);
  EXPECT_EQ(counted[1], 1u);
}

TEST_F(LaunchResults, AdamwMovesAgainstTheGradient) {
  const std::vector<float> weights = ramp(0.01F);
  const auto weight = on_device(weights), first = on_device(std::vector<float>(kCount)),
             second = on_device(std::vector<float>(kCount)), bucket = on_device(std::vector<float>(kCount, 2.0F)),
             state = on_device(std::vector<std::uint32_t>(4));
  TensorTable table(runtime, 0, std::vector<TensorPlace>{{0, kCount}}, {.columns = 3});
  const std::vector<void*> arrays{weight.data(), first.data(), second.data()};
  auto* shared = reinterpret_cast<UpdateState*>(state.data());
  begin_update(image, {shared, nullptr, 0.9, 0.999}, stream.view());
  AdamwStep step{{bucket.data(), shared}, 1e-2, 0.9, 0.999, 1e-8, 0.1};
  update_adamw(image, table, arrays, step, stream.view());
  const auto moved = values_of<float>(weight);
  // In the first step m / (1 - beta1) is the gradient and v / (1 - beta2) its square: everything moves by lr.
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_NEAR(moved[i], weights[i] * (1 - 1e-3F) - 1e-2F, 1e-6F);
  EXPECT_NEAR(values_of<float>(first)[5], 0.2F, 1e-6F);
  EXPECT_NEAR(values_of<float>(second)[5], 0.004F, 1e-8F);
}

TEST_F(LaunchResults, ImagesAreNormalisedAndFlipped) {
  std::vector<std::uint8_t> pixels(std::size_t{2} * 2 * 4 * 3);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(5 * i);
  const auto in = on_device(pixels), flips = on_device(std::vector<std::uint8_t>{0, 1}),
             out = on_device(std::vector<float>(pixels.size()));
  ImageBatch batch;
  batch.pixels = reinterpret_cast<const std::uint8_t*>(in.data());
  batch.flips = reinterpret_cast<const std::uint8_t*>(flips.data());
  batch.out = out.data();
  batch.images = batch.height = 2;
  batch.width = 4;
  batch.layout = ImageLayout::nchw;
  batch.mean = {0.5F, 0.25F, 0};
  batch.deviation = {0.5F, 0.25F, 1};
  normalize_images(image, batch, stream.view());
  const auto made = values_of<float>(out);
  for (std::size_t n = 0; n < 2; ++n) {
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t y = 0; y < 2; ++y) {
        for (std::size_t x = 0; x < 4; ++x) {
          const std::size_t from = ((n * 2 + y) * 4 + (n == 1 ? 3 - x : x)) * 3 + c;
          const float expected = (static_cast<float>(pixels[from]) / 255 - batch.mean[c]) / batch.deviation[c];
          ASSERT_NEAR(made[((n * 3 + c) * 2 + y) * 4 + x], expected, 1e-5F);
        }
      }
    }
  }
}

}  // namespace
}  // namespace kolo::kernels::test
