// normalize_images(): the bits of its formula on the CPU, by operations of LibTorch on a device, and by the kernel.
#include "kolo/data/normalize_images.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include <cmath>
#include <optional>
#include <vector>

#include "kolo/error.h"
#include "multirank/torch_device/trainee.h"

namespace kolo::test {
namespace {

using testing::HasSubstr;

const at::MemoryFormat kFormats[] = {at::MemoryFormat::ChannelsLast, at::MemoryFormat::Contiguous};
const c10::ScalarType kTypes[] = {c10::kFloat, c10::kHalf, c10::kBFloat16};

// The arguments of a call. Rows of 7 are no multiple of the four pixels of a thread; an image of one pixel has both
// formats.
struct Case {
  at::Tensor bytes;  // on the host
  at::Tensor flips;
  NormalizeOptions options;
};

at::Tensor pictures(std::int64_t images, std::int64_t height, std::int64_t width) {
  const at::Tensor bytes = at::arange(images * height * width * 3).mul(37).remainder(256).to(c10::kByte);
  return bytes.view({images, height, width, 3}).permute({0, 3, 1, 2});
}

std::vector<Case> cases() {
  const at::Tensor whole = pictures(3, 5, 7);
  const at::Tensor second = at::arange(3).remainder(2).mul(7);  // which is mirrored
  const NormalizeOptions others{.mean = {0.1F, 0.6F, 0}, .deviation = {0.5F, 2, 0.01F}};
  std::vector<Case> all;
  for (const at::Tensor& bytes : {whole, whole.contiguous()}) {
    for (const at::Tensor& flips : {at::Tensor(), second.to(c10::kByte), second.to(c10::kBool)}) {
      all.push_back({bytes, flips, {}});
      all.push_back({bytes, flips, others});
    }
  }
  all.push_back({pictures(2, 1, 1), {}, others});
  all.push_back({pictures(2, 1, 1).contiguous(), {}, {}});
  all.push_back({pictures(1, 3, 4), at::ones({1}, c10::kBool), {}});
  all.push_back({pictures(4, 6, 9).slice(0, 1, 3).slice(2, 1, 6, 2).slice(3, 2, 8), at::ones({2}, c10::kByte), others});
  all.push_back({pictures(1, 3, 4).expand({3, 3, 3, 4}), second.to(c10::kByte), {}});
  all.push_back({pictures(0, 8, 8), {}, {}});
  std::vector<Case> everything;
  for (const Case& each : all) {
    for (const auto format : kFormats) {
      for (const auto dtype : kTypes) {
        everything.push_back(each);
        everything.back().options.format = format;
        everything.back().options.dtype = dtype;
      }
    }
  }
  return everything;
}

// Element by element, as it is documented.
at::Tensor formula(const Case& of) {
  const at::Tensor bytes = of.bytes.contiguous();
  at::Tensor images = at::empty(bytes.sizes(), c10::kFloat);
  const auto from = bytes.accessor<std::uint8_t, 4>();
  auto to = images.accessor<float, 4>();
  const std::int64_t height = bytes.size(2), width = bytes.size(3);
  for (std::int64_t n = 0; n < bytes.size(0); ++n) {
    const bool flip = of.flips.defined() && of.flips[n].item<bool>();
    for (std::int64_t i = 0; i < 3 * height * width; ++i) {
      const std::int64_t c = i / (height * width), y = i / width % height, x = i % width;
      const auto channel = static_cast<std::size_t>(c);
      const float factor = 1.0F / (255.0F * of.options.deviation[channel]);
      const float shift = -of.options.mean[channel] / of.options.deviation[channel];
      volatile float product = static_cast<float>(from[n][c][y][flip ? width - 1 - x : x]) * factor;
      to[n][c][y][x] = product + shift;
    }
  }
  return images.to(of.options.dtype);
}

// Each case runs in its own stream, which only the current stream waits for.
void expect_the_formula(Place& place) {
  const UserStream side = place.side();
  int number = 0;
  for (const Case& each : cases()) {
    const at::Tensor bytes = each.bytes.to(place.device);
    const at::Tensor flips = each.flips.defined() ? each.flips.to(place.device) : each.flips;
    at::Tensor images;
    in_side_stream(place.main(), side, [&] { images = normalize_images(place.context, bytes, each.options, flips); });
    EXPECT_EQ(images.strides(), at::empty(images.sizes(), c10::TensorOptions(), each.options.format).strides());
    EXPECT_TRUE(images.cpu().equal(formula(each))) << "case " << number;
    ++number;
  }
  side.synchronize();
}

TEST(NormalizeImages, EqualsFormulaOnCpu) {
  run_on_cpus(1, [](Place& place) -> Tensors {
    expect_the_formula(place);
    return {};
  });
}

// The number of launches of the kernel on two ranks, which both have the bits of the formula.
int launches_for(std::uint64_t seed, bool with_optimizer) {
  DeviceWorld world({.hosts = one_host(2), .seed = seed});
  run_on_devices(world, [&](Place& place) {
    std::optional<Trainee> trainee;
    if (with_optimizer) trainee.emplace(place);
    expect_the_formula(place);
  });
  return world.device().launches("kolo_images");
}

TEST(NormalizeImages, EqualsFormulaOnDeviceWithAndWithoutKernel) {
  constexpr int kOfNoImages = 2 * 3;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    EXPECT_EQ(launches_for(seed, false), 0);
    EXPECT_EQ(launches_for(seed, true), 2 * (static_cast<int>(cases().size()) - kOfNoImages)) << "one a batch";
  }
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

TEST(NormalizeImages, InvalidArgumentIsUsageErrorThatNamesIt) {
  run_on_cpus(1, [](Place& place) -> Tensors {
    const at::Tensor good = pictures(3, 5, 7);
    expect_refused(place.context, "images is undefined", {});
    expect_refused(place.context, "images must be uint8 [n, 3, h, w], not Float [3, 3, 5, 7] on cpu",
                   good.to(c10::kFloat));
    expect_refused(place.context, "not Byte [3, 5, 7, 3]", good.permute({0, 2, 3, 1}));
    expect_refused(place.context, "dtype is Double", good, {.dtype = c10::kDouble});
    expect_refused(place.context, "in CPU memory or on a GPU", good.to(at::kMeta));
    expect_refused(place.context, "2^32 pixels", at::empty({1}, c10::kByte).expand({1 << 16, 3, 1 << 8, 1 << 8}));
    expect_refused(place.context, "must be positive", good, {.deviation = {1, 0, 1}});
    expect_refused(place.context, "must be positive", good, {.deviation = {1, 1, NAN}});
    expect_refused(place.context, "must be finite", good, {.mean = {INFINITY, 0, 0}});
    expect_refused(place.context, "flips must be uint8", good, {}, at::ones({3}, c10::kByte).to_sparse());
    expect_refused(place.context, "memory format", good, {.format = at::MemoryFormat::Preserve});
    expect_refused(place.context, "flips must be uint8 or bool, one for each image", good, {},
                   at::ones({2}, c10::kByte));
    expect_refused(place.context, "not Long [3]", good, {}, at::ones({3}, c10::kLong));
    return {};
  });
}

}  // namespace
}  // namespace kolo::test
