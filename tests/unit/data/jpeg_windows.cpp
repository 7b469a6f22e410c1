#include "jpeg_windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

#include "data/jpeg_decoder.h"

namespace kolo::test {
namespace {

using data::Window;

struct Range {
  int first = 0;
  int count = 0;
};

std::array<Range, 8> ranges(int extent) {
  const auto range = [extent](int first, int count) {
    const int inside = std::clamp(first, 0, extent - 1);
    return Range{inside, std::clamp(count, 1, extent - inside)};
  };
  return {range(0, extent),          range(0, 1),          range(1, 8),         range(2, 7), range(extent / 2 & ~1, 16),
          range(extent / 2 | 1, 15), range(extent - 6, 5), range(extent - 1, 1)};
}

std::vector<Window> windows(int width, int height, Pairs pairs) {
  const auto columns = ranges(width);
  const auto rows = ranges(height);
  std::vector<Window> all;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    for (std::size_t j = 0; j < rows.size(); ++j) {
      if (pairs == Pairs::few && j != i && j != (i * 3 + 4) % rows.size()) continue;
      all.push_back({columns[i].first, rows[j].first, columns[i].count, rows[j].count});
    }
  }
  return all;
}

std::string text_of(const std::vector<Sampling>& factors, Scans scans) {
  std::ostringstream text;
  for (const Sampling& factor : factors) text << factor.h << "x" << factor.v << " ";
  text << "scans " << static_cast<int>(scans);
  return text.str();
}

bool divides(const Sampling& small, const Sampling& large) { return large.h % small.h == 0 && large.v % small.v == 0; }

}  // namespace

int worst_difference(const data::Pixels& pixels, const Rgb& whole, const Window& window) {
  int worst = 0;
  for (int y = window.y; y < window.y + window.height; ++y) {
    for (int x = window.x; x < window.x + window.width; ++x) {
      for (int c = 0; c < 3; ++c) {
        worst = std::max(worst, std::abs(pixels.row(y)[(x - pixels.window.x) * 3 + c] - whole.at(x, y, c)));
      }
    }
  }
  return worst;
}

std::vector<std::vector<Sampling>> all_samplings(int largest) {
  std::vector<Sampling> factors;
  for (int h = 1; h <= largest; ++h) {
    for (int v = 1; v <= largest; ++v) factors.push_back({h, v});
  }
  const Sampling one;
  std::vector<std::vector<Sampling>> all;
  for (const Sampling& large : factors) {
    all.insert(all.end(),
               {{large}, {large, one, one}, {one, large, large}, {one, large, one}, {large, one, one, large}});
    for (const Sampling& small : factors) {
      const bool between = small.h * small.v > 1 && (small.h != large.h || small.v != large.v);
      if (between && divides(small, large)) all.insert(all.end(), {{large, small, one}, {large, small, small}});
    }
  }
  return all;
}

void expect_windows_of_the_whole(const std::vector<Sampling>& factors, int width, int height, Scans scans,
                                 Pairs pairs) {
  const std::string jpeg = encode_sampled(rough_image(width, height), factors, scans);
  data::JpegDecoder decoder;
  data::Pixels pixels;
  for (const int reduction : {1, 2, 4, 8}) {
    const Rgb whole = decode_whole(jpeg, reduction);
    int worst = 0;
    Window place;
    for (const Window& window : windows(whole.width, whole.height, pairs)) {
      decoder.open(std::as_bytes(std::span(jpeg)));
      decoder.decode(window, reduction, pixels);
      ASSERT_LE(pixels.window.x, window.x);
      ASSERT_GE(pixels.window.x + pixels.window.width, window.x + window.width);
      ASSERT_LE(pixels.window.y, window.y);
      ASSERT_GE(pixels.window.y + pixels.window.height, window.y + window.height);
      const int difference = worst_difference(pixels, whole, window);
      if (difference > worst) place = window;
      worst = std::max(worst, difference);
    }
    EXPECT_EQ(worst, 0) << text_of(factors, scans) << ", " << width << " x " << height << " at 1/" << reduction
                        << ", window " << place.x << "," << place.y << " " << place.width << " x " << place.height;
  }
}

}  // namespace kolo::test
