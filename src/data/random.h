#pragma once
#include <cmath>
#include <cstdint>
#include <span>

#include "base/hash.h"

namespace kolo::data {

// The random numbers of one sample: a function of (seed, epoch, index), so of nothing that workers or ranks do. Ours
// and not <random>'s, whose distributions differ between standard libraries. (splitmix64.)
class SampleRandom {
 public:
  SampleRandom(std::uint64_t seed, std::uint64_t epoch, std::uint64_t index) {
    const std::uint64_t key[] = {seed, epoch, index};
    state_ = base::hash64(std::as_bytes(std::span(key)));
  }

  std::uint64_t next() noexcept {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }
  double uniform() noexcept { return static_cast<double>(next() >> 11U) * 0x1p-53; }  // [0, 1)
  double uniform(double low, double high) noexcept { return low + (high - low) * uniform(); }
  // 0 .. count-1; count > 0. The bias of the multiplication is below 2^-32 for any image.
  int below(int count) noexcept {
    return static_cast<int>(((next() >> 32U) * static_cast<std::uint64_t>(count)) >> 32U);
  }
  double normal() noexcept {  // good enough for noise: the sum of twelve
    double sum = -6.0;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace kolo::data
