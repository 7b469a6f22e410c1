// The launches, as the engine makes them: that their arguments reach the kernels. On whatever device
// make_launch_device() gives: the simulated one, and a GPU in tests/gpu.
#include <cmath>
#include <limits>

#include "kernels/adamw.h"
#include "kernels/find_nonfinite.h"
#include "kernels/images.h"
#include "kernels/pack.h"
#include "kernels/scale.h"
#include "kernels/sgd.h"
#include "torch/update_loops.h"
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

TEST_F(LaunchResults, AnInfiniteGradientIsFound) {
  std::vector<float> infinite = ramp(0.5F);
  infinite[777] = std::numeric_limits<float>::infinity();
  const auto good = on_device(ramp(0.5F)), bad = on_device(infinite), flags = on_device(std::vector<float>{0, 0});
  TensorTable table(runtime, 0, std::vector<TensorPlace>{{0, kCount}, {0, kCount}});
  auto* flag = reinterpret_cast<float*>(flags.data());
  find_nonfinite({image, table, std::vector<void*>{good.data(), nullptr}, 1, stream.view()}, flag);
  find_nonfinite({image, table, std::vector<void*>{good.data(), bad.data()}, 1, stream.view()}, flag + 1);
  EXPECT_EQ(values_of<float>(flags), (std::vector<float>{0, 1}));
}

TEST_F(LaunchResults, SgdHasTheNumbersOfTheHost) {
  const std::vector<float> weights = ramp(0.01F), gradients = ramp(0.5F);
  const auto weight = on_device(weights), momentum = on_device(std::vector<float>(kCount, 99.0F)),
             gradient = on_device(gradients);
  TensorTable table(runtime, 0, std::vector<TensorPlace>{{0, kCount}}, {.columns = 3});
  const std::vector<void*> addresses{gradient.data(), weight.data(), momentum.data()};
  const SgdTerms first{0.1, 0.9, 0.5, 1e-3, true, true}, next{0.05, 0.9, 0.5, 1e-3, true, false};
  for (const SgdTerms& terms : {first, next}) update_sgd({image, table, addresses, 0.5, stream.view()}, terms);
  std::vector<float> expected = weights, expected_momentum(kCount);
  const UpdateArrays host{DType::f32, expected.data(), expected_momentum.data(), nullptr, gradients.data(), kCount,
                          0.5};
  for (const SgdTerms& terms : {first, next}) sgd_update(host, terms);
  EXPECT_EQ(values_of<float>(weight), expected);
  EXPECT_EQ(values_of<float>(momentum), expected_momentum);
  EXPECT_EQ(values_of<float>(gradient), gradients);
}

TEST_F(LaunchResults, AnUpdateIsLeftOutWhereAWordOfTheHostsIsSet) {
  const std::vector<float> ones(kCount, 1);
  const auto weight = on_device(ones), gradient = on_device(ones);
  TensorTable table(runtime, 0, std::vector<TensorPlace>{{0, kCount}}, {.columns = 2});
  const std::vector<void*> addresses{gradient.data(), weight.data()};
  cuda::HostWord word(runtime, 0);
  const Leave leave{nullptr, word.address()};
  const auto update = [&] { update_sgd({image, table, addresses, 1, stream.view(), leave}, SgdTerms{0.25}); };
  update();
  EXPECT_EQ(values_of<float>(weight), std::vector<float>(kCount, 0.75F));
  word.set();
  update();
  EXPECT_EQ(values_of<float>(weight), std::vector<float>(kCount, 0.75F));
}

TEST_F(LaunchResults, AdamwHasTheNumbersOfTheHost) {
  const std::vector<float> weights = ramp(0.01F), gradients = ramp(2);
  const auto weight = on_device(weights), first = on_device(std::vector<float>(kCount)),
             second = on_device(std::vector<float>(kCount)), gradient = on_device(gradients);
  TensorTable table(runtime, 0, std::vector<TensorPlace>{{0, kCount}}, {.columns = 4});
  const std::vector<void*> addresses{gradient.data(), weight.data(), first.data(), second.data()};
  std::vector<float> expected = weights, expected_first(kCount), expected_second(kCount);
  for (const std::int64_t number : {1, 2, 3}) {
    const AdamwTerms terms{1e-2, 0.9, 0.999, 1e-8, 0.1, number};
    update_adamw({image, table, addresses, 1, stream.view()}, terms);
    adamw_update({DType::f32, expected.data(), expected_first.data(), expected_second.data(), gradients.data(), kCount},
                 terms);
  }
  EXPECT_EQ(values_of<float>(weight), expected);
  EXPECT_EQ(values_of<float>(first), expected_first);
  EXPECT_EQ(values_of<float>(second), expected_second);
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
