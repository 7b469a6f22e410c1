#pragma once
// Numbers for tests of launches: as many, with another distance in between.
#include <cstddef>
#include <vector>

namespace kolo::kernels::test {

inline constexpr std::size_t kCount = 1000;

inline std::vector<float> ramp(float step) {
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) values[i] = step * (static_cast<float>(i) - 300);
  return values;
}

}  // namespace kolo::kernels::test
