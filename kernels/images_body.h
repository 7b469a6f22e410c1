#pragma once
// What one thread does of normalize_images(): four pixels of a row at a time, twelve bytes of input, which leave as
// they lie (channels last) or as four values in each of three planes.
#include "kernels/device_run.h"
#include "kernels/floating.h"
#include "kernels/images_arguments.h"

namespace kolo::kernels {

// Up to four neighbours in a row.
struct PixelGroup {
  std::uint32_t row;    // of all rows of the batch
  std::uint32_t first;  // column, in the output
  std::uint32_t count;
  bool flipped;
};

// In the output's order, channel by channel of each pixel.
struct PixelValues {
  float value[12];
};

KOLO_HOST_DEVICE inline PixelValues read_pixels(const ImagesArguments& a, const PixelGroup& group) {
  const std::uint32_t column = group.flipped ? a.width - group.first - group.count : group.first;
  const std::byte* from = a.pixels + (static_cast<std::size_t>(group.row) * a.width + column) * 3;
  std::byte bytes[12] = {};
  if (group.count == 4 && behind(from, 4) == 0) {
    const std::uint32_t words[3] = {load<std::uint32_t>(from), load<std::uint32_t>(from + 4),
                                    load<std::uint32_t>(from + 8)};
    for (unsigned i = 0; i < 12; ++i) bytes[i] = static_cast<std::byte>((words[i / 4] >> (8 * (i % 4))) & 0xff);
  } else {
    for (unsigned i = 0; i < 12; ++i) {
      if (i < group.count * 3) bytes[i] = from[i];
    }
  }
  PixelValues result{};
  for (unsigned k = 0; k < 4; ++k) {
    for (unsigned c = 0; c < 3; ++c) {
      std::byte pixel = bytes[k * 3 + c];
      for (unsigned other = 0; other < 4; ++other) {  // constant places, so that all of it stays in registers
        if (group.flipped && other + k + 1 == group.count) pixel = bytes[other * 3 + c];
      }
      result.value[k * 3 + c] = static_cast<float>(static_cast<unsigned>(pixel)) * a.factor[c] + a.shift[c];
    }
  }
  return result;
}

// Four values side by side, or `count` of them.
template <class E>
KOLO_HOST_DEVICE void write_four(std::byte* to, const float (&values)[4], std::uint32_t count) {
  using Bits = typename E::Bits;
  Pack<Bits, 4> pack;
  for (unsigned k = 0; k < 4; ++k) pack.lane[k] = E::encode(values[k]);
  if (count >= 4 && behind(to, sizeof(pack)) == 0) return store(to, pack);
  for (unsigned k = 0; k < 4; ++k) {
    if (k < count) store(to + k * sizeof(Bits), pack.lane[k]);
  }
}

template <class E>
KOLO_HOST_DEVICE void write_pixels(const ImagesArguments& a, const PixelGroup& group, const PixelValues& pixels) {
  constexpr std::size_t kSize = sizeof(typename E::Bits);
  const float* v = pixels.value;
  if (a.channels_last) {
    std::byte* to = a.out + (static_cast<std::size_t>(group.row) * a.width + group.first) * 3 * kSize;
    const std::uint32_t values = group.count * 3;
    for (unsigned part = 0; part < 3; ++part) {
      const float four[4] = {v[part * 4], v[part * 4 + 1], v[part * 4 + 2], v[part * 4 + 3]};
      write_four<E>(to + part * 4 * kSize, four, values > part * 4 ? values - part * 4 : 0);
    }
    return;
  }
  const std::size_t image = group.row / a.height;
  const std::uint32_t y = group.row % a.height;
  for (unsigned c = 0; c < 3; ++c) {
    const std::size_t at = ((image * 3 + c) * a.height + y) * a.width + group.first;
    const float four[4] = {v[c], v[3 + c], v[6 + c], v[9 + c]};
    write_four<E>(a.out + at * kSize, four, group.count);
  }
}

KOLO_HOST_DEVICE inline void images_body(const ImagesArguments& arguments, const Position& at) {
  const std::uint32_t groups_of_row = (arguments.width + 3) / 4;
  const std::size_t groups = static_cast<std::size_t>(arguments.images) * arguments.height * groups_of_row;
  const Share share = share_of_grid(at);
  with_small_floating(arguments.dtype, [&](auto element) {
    for (std::size_t i = share.index; i < groups; i += share.of) {
      const auto index = static_cast<std::uint32_t>(i);  // of fewer than 2^32
      const std::uint32_t row = index / groups_of_row;
      const std::uint32_t first = (index % groups_of_row) * 4;
      const std::uint32_t count = arguments.width - first < 4 ? arguments.width - first : 4;
      const bool flipped = arguments.flips != nullptr && arguments.flips[row / arguments.height] != std::byte{0};
      const PixelGroup group{row, first, count, flipped};
      write_pixels<decltype(element)>(arguments, group, read_pixels(arguments, group));
    }
  });
}

}  // namespace kolo::kernels
