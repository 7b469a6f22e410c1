#include "base/deadline.h"

#include <gtest/gtest.h>

namespace kolo::base {
namespace {

using namespace std::chrono_literals;

TEST(Deadline, PassesWhenItsTimeIsOver) {
  EXPECT_TRUE(Deadline(0ms).passed());
  EXPECT_TRUE(Deadline(-1h).passed());
  EXPECT_EQ(Deadline(-1h).left(), 0ns);
  const Deadline deadline(1h);
  EXPECT_FALSE(deadline.passed());
  EXPECT_GT(deadline.left(), 59min);
  EXPECT_LE(deadline.left(), 1h);
}

// In nanoseconds these overflow.
TEST(Deadline, ForEverIsNotNow) {
  EXPECT_GT(Deadline(std::chrono::milliseconds::max()).left(), 24h);
  EXPECT_GT(Deadline(std::chrono::hours::max()).left(), 24h);
  EXPECT_GT(Deadline(std::chrono::duration<double>(1e300)).left(), 24h);
  EXPECT_TRUE(Deadline(std::chrono::milliseconds::min()).passed());
}

}  // namespace
}  // namespace kolo::base
