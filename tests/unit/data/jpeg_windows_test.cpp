// A few windows for each sampling factor. All of them: all_jpeg_windows_test.cpp.
#include <gtest/gtest.h>

#include "jpeg_windows.h"

namespace kolo::data {
namespace {

TEST(JpegWindow, EqualsSamePartOfWholeImageForEachSamplingFactor) {
  for (const auto& factors : test::all_samplings(4)) {
    int blocks = 0;
    for (const test::Sampling& factor : factors) blocks += factor.h * factor.v;
    const bool one = factors.size() == 1 || blocks <= 10;
    const test::Scans scans = one ? test::Scans::one : test::Scans::one_for_each_component;
    test::expect_windows_of_the_whole(factors, 99, 74, scans, test::Pairs::few);
  }
}

}  // namespace
}  // namespace kolo::data
