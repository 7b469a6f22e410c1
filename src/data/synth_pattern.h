#pragma once
#include <cstdint>
#include <vector>

namespace kolo::data {

struct Pattern {
  std::int64_t label = 0;
  int width = 0;
  int height = 0;
  std::uint64_t seed = 0;
  std::uint64_t number = 0;  // of the image: another place, size, light and noise for each
};

// width * height * 3 bytes. The label decides hues, the direction and width of the stripes behind and the shape in
// front; everything else is random.
[[nodiscard]] std::vector<std::uint8_t> draw_pattern(const Pattern& pattern);

}  // namespace kolo::data
