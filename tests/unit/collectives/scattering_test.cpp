#include "collectives/scattering.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace kolo::collectives {
namespace {

// Pieces of 16, 0, 32 and 10 elements, the third of which lies apart.
struct Whole {
  alignas(64) std::array<float, 64> data{};
  alignas(64) std::array<float, 32> apart{};
  std::vector<std::size_t> begins{0, 16, 16, 48};
  std::vector<std::byte*> places{nullptr, nullptr, reinterpret_cast<std::byte*>(apart.data()), nullptr};

  [[nodiscard]] Run run(std::size_t begin, std::size_t end, const SegmentedBuffer& scattering) {
    return run_from(begin, end, scattering, reinterpret_cast<std::byte*>(data.data()), sizeof(float));
  }
};

void expect(const Run& run, const float* data, std::size_t begin, std::size_t count) {
  EXPECT_EQ(run.data, reinterpret_cast<const std::byte*>(data));
  EXPECT_EQ(run.begin, begin);
  EXPECT_EQ(run.count, count);
}

TEST(RunFrom, EndsWhereItsPieceDoes) {
  Whole whole;
  const SegmentedBuffer scattering{whole.begins, whole.places, nullptr};
  expect(whole.run(0, 58, scattering), &whole.data[0], 0, 16);
  expect(whole.run(3, 10, scattering), &whole.data[3], 3, 7);
  expect(whole.run(16, 58, scattering), &whole.apart[0], 16, 32);
  expect(whole.run(40, 45, scattering), &whole.apart[24], 40, 5);
  expect(whole.run(48, 58, scattering), &whole.data[48], 48, 10);
}

TEST(RunFrom, WithoutPiecesGoesOnToTheEnd) {
  Whole whole;
  expect(whole.run(5, 58, {}), &whole.data[5], 5, 53);
}

}  // namespace
}  // namespace kolo::collectives
