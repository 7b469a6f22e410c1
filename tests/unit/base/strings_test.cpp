#include "base/strings.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <set>

namespace kolo::base {
namespace {

TEST(Strings, EditDistance) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("TIMEOUT", "TIMOUT"), 1u);
}

TEST(Strings, Nearest) {
  constexpr std::array<std::string_view, 3> names{"bucket", "timeout", "bucked"};
  EXPECT_EQ(nearest("timout", names), "timeout");
  EXPECT_EQ(nearest("bucke", names), "bucket");  // the first of equals
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(Strings, Join) {
  constexpr std::array<std::string_view, 2> parts{"a", "b"};
  EXPECT_EQ(join(parts, ", "), "a, b");
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_EQ(join(std::set<std::string>{"b", "a"}, ", "), "a, b");
  EXPECT_EQ(join(std::vector<std::string>{}, ", "), "");
}

TEST(Strings, Counted) {
  EXPECT_EQ(counted(0, "host"), "0 hosts");
  EXPECT_EQ(counted(1, "host"), "1 host");
  EXPECT_EQ(counted(2, "host"), "2 hosts");
}

TEST(Strings, ToUpper) { EXPECT_EQ(to_upper("16mIb-ä"), "16MIB-ä"); }

TEST(Ranks, OfManyTheFirstAreNamed) {
  EXPECT_EQ(ranks_text(std::vector<Rank>{3}), "rank 3");
  EXPECT_EQ(ranks_text(std::vector<Rank>{0, 2}), "ranks 0, 2");
  std::vector<Rank> many(100);
  std::iota(many.begin(), many.end(), 0);
  EXPECT_EQ(ranks_text(many), "ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 and 84 more");
}

}  // namespace
}  // namespace kolo::base
