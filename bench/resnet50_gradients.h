#pragma once
// ResNet-50's 161 parameters, of which the benchmarks need the sizes only: 25,557,032 elements, 102 MB in fp32.
#include <cstdint>
#include <vector>

namespace kolo::bench {

// In the order of the model. A convolution has no bias and is followed by a norm of two parameters.
[[nodiscard]] inline std::vector<std::int64_t> resnet50_elements() {
  std::vector<std::int64_t> elements;
  const auto convolution = [&](std::int64_t in, std::int64_t out, std::int64_t kernel) {
    for (const std::int64_t count : {in * out * kernel * kernel, out, out}) elements.push_back(count);
  };
  convolution(3, 64, 7);
  const int blocks[] = {3, 4, 6, 3};
  std::int64_t in = 64;
  for (int stage = 0; stage < 4; ++stage) {
    const std::int64_t width = std::int64_t{64} << stage;
    for (int block = 0; block < blocks[stage]; ++block) {
      convolution(in, width, 1);
      convolution(width, width, 3);
      convolution(width, 4 * width, 1);
      if (block == 0) convolution(in, 4 * width, 1);  // the shortcut
      in = 4 * width;
    }
  }
  for (const std::int64_t count : {2048 * 1000, 1000}) elements.push_back(count);
  return elements;
}

}  // namespace kolo::bench
