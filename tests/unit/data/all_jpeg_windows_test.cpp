// Every sampling factor, kind of scans, scale, and odd and even sizes, places and sizes of windows.
#include <gtest/gtest.h>

#include "jpeg_windows.h"

namespace kolo::data {
namespace {

class AllJpegWindows : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(AllJpegWindows, EqualSamePartOfWholeImageForEachSamplingFactor) {
  const auto [width, height] = GetParam();
  for (const auto& factors : test::all_samplings(4)) {
    int blocks = 0;
    for (const test::Sampling& factor : factors) blocks += factor.h * factor.v;
    for (const auto scans : {test::Scans::one, test::Scans::one_for_each_component, test::Scans::progressive}) {
      if (scans == test::Scans::one && factors.size() > 1 && blocks > 10) continue;
      test::expect_windows_of_the_whole(factors, width, height, scans, test::Pairs::every);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, AllJpegWindows,
                         ::testing::Values(std::tuple{98, 74}, std::tuple{99, 74}, std::tuple{98, 75},
                                           std::tuple{99, 75}, std::tuple{19, 18}, std::tuple{5, 7}));

}  // namespace
}  // namespace kolo::data
