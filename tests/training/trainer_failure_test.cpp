#include "failure.h"

#include <gtest/gtest.h>

namespace imagenet {
namespace {

TEST(TrainerFailure, WhatAllRanksSayIsSaidOnce) {
  EXPECT_EQ(summary_of({"", ""}), "");
  EXPECT_EQ(summary_of({"bad"}), "bad");
  EXPECT_EQ(summary_of({"bad", "bad", "bad"}), "bad");
  EXPECT_EQ(summary_of({"bad", "", "bad"}), "ranks 0, 2: bad");
  EXPECT_EQ(summary_of({"peer failed", "disk full", "peer failed"}), "ranks 0, 2: peer failed\nrank 1: disk full");
}

}  // namespace
}  // namespace imagenet
