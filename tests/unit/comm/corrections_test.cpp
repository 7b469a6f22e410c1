#include <gtest/gtest.h>

#include "comm/corrections.h"

namespace kolo::comm {
namespace {

TEST(Corrections, AreInterpolatedBetweenSizesAndStayBeyondThem) {
  Corrections corrections({.size = 4, .hosts = 4});
  corrections.add(Way::ring, 100, 2);
  corrections.add(Way::ring, 200, 4);
  corrections.add(Way::ring, 400, 3);
  corrections.add(Way::tree, 800, 0.5);
  EXPECT_EQ(corrections.factor(Way::ring, 0), 2);
  EXPECT_EQ(corrections.factor(Way::ring, 100), 2);
  EXPECT_EQ(corrections.factor(Way::ring, 150), 3);
  EXPECT_EQ(corrections.factor(Way::ring, 200), 4);
  EXPECT_EQ(corrections.factor(Way::ring, 300), 3.5);
  EXPECT_EQ(corrections.factor(Way::ring, std::size_t{1} << 40), 3);
  EXPECT_EQ(corrections.factor(Way::tree, 1), 0.5);
  EXPECT_EQ(corrections.factor(Way::halving_doubling, 100), 1);  // nothing is known of it
  EXPECT_EQ(corrections.up_to(), 800U);
}

TEST(Corrections, AreOfOneGroup) {
  Corrections corrections({.size = 4, .hosts = 2, .lanes = 2});
  EXPECT_FALSE(corrections.are_of({.size = 4, .hosts = 2}));  // nothing is known yet
  EXPECT_TRUE(corrections.empty());
  corrections.add(Way::ring, 100, 2);
  EXPECT_TRUE(corrections.are_of({.size = 4, .hosts = 2}));
  EXPECT_FALSE(corrections.are_of({.size = 2, .hosts = 2}));
  EXPECT_FALSE(corrections.are_of({.size = 4, .hosts = 4}));
  EXPECT_FALSE(corrections.are_of({.size = 4, .hosts = 2, .sharing = 2}));
}

}  // namespace
}  // namespace kolo::comm
