// normalize_images(): the bits of its formula on the host, by LibTorch's operations on a device, and by the kernel.
#include "kolo/torch/images.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include <optional>

#include "kolo/error.h"
#include "multirank/torch_device/trainee.h"

namespace kolo::test {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kImages = 3, kHeight = 5, kWidth = 7;  // rows that are no multiple of a thread's four pixels
const at::MemoryFormat kFormats[] = {at::MemoryFormat::ChannelsLast, at::MemoryFormat::Contiguous};
const c10::ScalarType kTypes[] = {c10::kFloat, c10::kHalf, c10::kBFloat16};

// Each byte there is, and then again.
at::Tensor pictures(at::MemoryFormat format) {
  const at::Tensor bytes = at::arange(kImages * kHeight * kWidth * 3).mul(37).remainder(256).to(c10::kByte);
  return bytes.view({kImages, kHeight, kWidth, 3}).permute({0, 3, 1, 2}).contiguous(format);
}

// The second image is mirrored.
at::Tensor mirrored_second(c10::ScalarType type) { return at::arange(kImages).remainder(2).mul(7).to(type); }

// Element by element, as it is documented.
at::Tensor formula(bool flip, const NormalizeOptions& options) {
  const at::Tensor bytes = pictures(at::MemoryFormat::Contiguous);
  at::Tensor images = at::empty(bytes.sizes(), c10::kFloat);
  const auto from = bytes.accessor<std::uint8_t, 4>();
  auto to = images.accessor<float, 4>();
  for (std::int64_t n = 0; n < kImages; ++n) {
    for (std::int64_t i = 0; i < 3 * kHeight * kWidth; ++i) {
      const std::int64_t c = i / (kHeight * kWidth), y = i / kWidth % kHeight, x = i % kWidth;
      const auto channel = static_cast<std::size_t>(c);
      const float factor = 1.0F / (255.0F * options.deviation[channel]);
      const float shift = -options.mean[channel] / options.deviation[channel];
      volatile float product = static_cast<float>(from[n][c][y][flip && n == 1 ? kWidth - 1 - x : x]) * factor;
      to[n][c][y][x] = product + shift;
    }
  }
  return images.to(options.dtype);
}

// Every combination, in a stream of its own that only the current one is ordered behind.
Tensors normalise_all(Place& place) {
  const UserStream side = place.side();
  Tensors all;
  for (const auto from : kFormats) {
    const at::Tensor bytes = pictures(from).to(place.device);
    for (const auto format : kFormats) {
      for (const auto dtype : kTypes) {
        for (const at::Tensor& flips : {at::Tensor(), mirrored_second(c10::kByte), mirrored_second(c10::kBool)}) {
          const at::Tensor there = flips.defined() ? flips.to(place.device) : flips;
          at::Tensor images;
          in_side_stream(place.main(), side, [&] {
            images = normalize_images(place.context, bytes, {.dtype = dtype, .format = format}, there);
          });
          EXPECT_TRUE(images.is_contiguous(format));
          all.push_back(images.cpu());
        }
      }
    }
  }
  side.synchronize();
  return all;
}

void expect_the_formula(const Tensors& found) {
  std::size_t i = 0;
  for (int from = 0; from < 2; ++from) {
    for (const auto format : kFormats) {
      for (const auto dtype : kTypes) {
        for (const bool flip : {false, true, true}) {
          ASSERT_LT(i, found.size());
          EXPECT_TRUE(found[i].equal(formula(flip, {.dtype = dtype}))) << "case " << i << " into " << dtype << format;
          ++i;
        }
      }
    }
  }
  EXPECT_EQ(i, found.size());
}

TEST(NormalizeImages, ByTheFormulaOnTheHost) { expect_the_formula(run_on_cpus(1, normalise_all)[0]); }

// How often the kernel was launched on two ranks, which both have the formula's bits.
int launches_for(std::uint64_t seed, bool with_optimizer) {
  DeviceWorld world({.hosts = one_host(2), .seed = seed});
  TorchDevice torch_device(world.device());
  world.run([&](Context& context) {
    Place place(context, torch_device);
    std::optional<Trainee> trainee;
    if (with_optimizer) trainee.emplace(place);
    expect_the_formula(normalise_all(place));
  });
  return world.device().launches("kolo_images");
}

// By LibTorch's operations, or by the kernel.
TEST(NormalizeImages, TheSameBitsOnADeviceWithAndWithoutTheKernel) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    EXPECT_EQ(launches_for(seed, false), 0);
    EXPECT_EQ(launches_for(seed, true), 2 * 2 * 2 * 3 * 3) << "one a batch";
  }
}

TEST(NormalizeImages, NothingOfNoImages) {
  const Tensors found = run_on_cpus(1, [](Place& place) -> Tensors {
    return {normalize_images(place.context, at::empty({0, 3, 8, 8}, c10::kByte))};
  })[0];
  EXPECT_EQ(found[0].sizes(), (std::vector<std::int64_t>{0, 3, 8, 8}));
}

void expect_refused(Context& context, const char* text, const at::Tensor& bytes, const NormalizeOptions& options = {},
                    const at::Tensor& flips = {}) {
  try {
    (void)normalize_images(context, bytes, options, flips);
    FAIL() << text;
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

TEST(NormalizeImages, WhatIsNoBatchOfImagesIsRefusedInWords) {
  run_on_cpus(1, [](Place& place) -> Tensors {
    const at::Tensor good = pictures(at::MemoryFormat::ChannelsLast);
    expect_refused(place.context, "no images", {});
    expect_refused(place.context, "images are uint8 [n, 3, h, w], not Float [3, 3, 5, 7] on cpu", good.to(c10::kFloat));
    expect_refused(place.context, "not Byte [3, 5, 7, 3]", good.permute({0, 2, 3, 1}));
    expect_refused(place.context, "into Double", good, {.dtype = c10::kDouble});
    expect_refused(place.context, "memory format", good, {.format = at::MemoryFormat::Preserve});
    expect_refused(place.context, "flips are uint8 or bool, one an image", good, {}, at::ones({2}, c10::kByte));
    expect_refused(place.context, "not Long [3]", good, {}, at::ones({3}, c10::kLong));
    return {};
  });
}

}  // namespace
}  // namespace kolo::test
