#include "base/trials.h"

#include <gmock/gmock.h>

#include <set>

namespace kolo::base {
namespace {

using testing::UnorderedElementsAre;

TEST(Trials, EverybodyHasOneTurnInEach) {
  for (std::uint32_t trial = 0; trial < 20; ++trial) {
    EXPECT_THAT(turns_of_trial(4, trial), UnorderedElementsAre(0, 1, 2, 3));
  }
  EXPECT_TRUE(turns_of_trial(0, 1).empty());
}

TEST(Trials, TheOrderFollowsFromTheTrialAndChangesWithIt) {
  std::set<std::vector<std::size_t>> orders;
  for (std::uint32_t trial = 0; trial < 100; ++trial) {
    EXPECT_EQ(turns_of_trial(3, trial), turns_of_trial(3, trial));
    orders.insert(turns_of_trial(3, trial));
  }
  EXPECT_EQ(orders.size(), 6U);  // all there are
}

TEST(Trials, WhatFillsNoLinkDoesNotRest) {
  EXPECT_EQ(rest_before_trial(4095).count(), 0);
  EXPECT_GT(rest_before_trial(4096).count(), 0);
}

}  // namespace
}  // namespace kolo::base
