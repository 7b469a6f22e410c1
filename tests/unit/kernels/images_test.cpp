#include <gtest/gtest.h>

#include <cstring>

#include "kernels/images_arguments.h"
#include "unit/kernels/guarded.h"
#include "unit/kernels/host_table.h"
#include "unit/kernels/reference.h"

namespace kolo::kernels::test {
namespace {

struct Case {
  DType dtype = DType::f32;
  bool channels_last = true;
  std::uint32_t height = 1;
  std::uint32_t width = 1;
  std::size_t pixels_at = 0;
  std::size_t out_at = 0;
  bool with_flips = true;
  Grid grid{3, 32};
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << name_of(c.dtype) << (c.channels_last ? " nhwc " : " nchw ") << c.height << 'x' << c.width << " from "
             << c.pixels_at << " to " << c.out_at << (c.with_flips ? " with flips" : "");
}

constexpr std::uint32_t kImages = 3;
constexpr float kFactor[3] = {1.0F / (255 * 0.229F), 1.0F / (255 * 0.224F), 1.0F / (255 * 0.225F)};
constexpr float kShift[3] = {-0.485F / 0.229F, -0.456F / 0.224F, -0.406F / 0.225F};

void check(const Case& c) {
  const std::size_t values = std::size_t{3} * kImages * c.height * c.width, size = size_of(c.dtype);
  std::mt19937_64 random(values);
  Guarded pixels(values, c.pixels_at), out(values * size, c.out_at);
  for (std::size_t i = 0; i < values; ++i) pixels.data()[i] = static_cast<std::byte>(random() & 0xff);
  const std::pmr::vector<std::byte> flips{std::byte{0}, std::byte{1}, std::byte{255}};
  ImagesArguments arguments{pixels.data(),
                            c.with_flips ? flips.data() : nullptr,
                            out.data(),
                            kImages,
                            c.height,
                            c.width,
                            c.dtype,
                            c.channels_last,
                            {},
                            {}};
  std::memcpy(arguments.factor, kFactor, sizeof(kFactor));
  std::memcpy(arguments.shift, kShift, sizeof(kShift));
  run_kernel("kolo_images", arguments, c.grid);
  for (std::size_t n = 0; n < kImages; ++n) {
    for (std::size_t y = 0; y < c.height; ++y) {
      for (std::size_t x = 0; x < c.width; ++x) {
        for (std::size_t channel = 0; channel < 3; ++channel) {
          const bool flipped = c.with_flips && n != 0;
          const std::size_t from = ((n * c.height + y) * c.width + (flipped ? c.width - 1 - x : x)) * 3 + channel;
          const std::size_t to = c.channels_last ? ((n * c.height + y) * c.width + x) * 3 + channel
                                                 : ((n * 3 + channel) * c.height + y) * c.width + x;
          const float scaled = static_cast<float>(std::to_integer<int>(pixels.data()[from])) * kFactor[channel];
          std::byte expected[8];
          store_float(expected, c.dtype, scaled + kShift[channel]);
          ASSERT_EQ(std::memcmp(out.data() + to * size, expected, size), 0)
              << c << ": image " << n << " row " << y << " column " << x << " channel " << channel;
        }
      }
    }
  }
  ASSERT_TRUE(out.intact() && pixels.intact()) << c;
}

TEST(Images, EveryTypeLayoutAndWidth) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const bool channels_last : {true, false}) {
      for (const std::uint32_t width : {1, 2, 3, 4, 5, 7, 8, 12, 17, 32}) {
        for (const std::uint32_t height : {1, 2, 5}) {
          for (const bool with_flips : {true, false}) {
            check({dtype, channels_last, height, width, 0, 0, with_flips, {3, 32}});
            check({dtype, channels_last, height, width, 1, size_of(dtype), with_flips, {1, 7}});
            check({dtype, channels_last, height, width, 4, 16, with_flips, {2, 256}});
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST(Images, NoImages) {
  run_kernel("kolo_images", ImagesArguments{}, {2, 32});
  ImagesArguments flat;
  flat.images = 2;
  flat.width = 8;
  run_kernel("kolo_images", flat, {2, 32});
}

}  // namespace
}  // namespace kolo::kernels::test
