#include "base/keep_for_good.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace kolo::base {
namespace {

int count_kept() {
  int kept = 0;
  for (const KeptForGood* one = KeptForGood::newest; one != nullptr; one = one->next) ++kept;
  return kept;
}

// What is kept lives on, from whatever thread it came, and can be found: a leak checker that runs over this test
// agrees.
TEST(KeepForGood, NothingKeptIsDestroyedOrLost) {
  constexpr int kThreads = 4;
  const int before = count_kept();
  const auto memory = std::make_shared<int>(0);
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&] {
        keep_for_good(memory);
        keep_for_good(std::vector{memory, memory});
      });
    }
  }
  EXPECT_EQ(memory.use_count(), 1 + 3 * kThreads);
  EXPECT_EQ(count_kept() - before, 2 * kThreads);
}

}  // namespace
}  // namespace kolo::base
