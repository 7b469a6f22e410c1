#include "base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace kolo::base {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST(UniqueFd, ClosesOnceAndMoves) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  {
    UniqueFd first(ends[0]), second(ends[1]);
    UniqueFd moved(std::move(first));
    EXPECT_FALSE(first);
    EXPECT_EQ(moved.get(), ends[0]);
    moved = std::move(second);  // closes what it had
    EXPECT_FALSE(is_open(ends[0]));
    EXPECT_TRUE(is_open(ends[1]));
  }
  EXPECT_FALSE(is_open(ends[1]));
}

TEST(UniqueFd, ReleaseGivesItAway) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  UniqueFd reader(ends[0]), writer(ends[1]);
  const int fd = reader.release();
  reader.reset();
  EXPECT_TRUE(is_open(fd));
  reader.reset(fd);
  EXPECT_TRUE(reader);
}

}  // namespace
}  // namespace kolo::base
