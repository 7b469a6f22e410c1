#include "failure.h"

#include "agreement.h"

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

TEST(TrainerAgreement, NamesTheOptionThatDiffersAndWhere) {
  Options usual;
  EXPECT_EQ(disagreement_of({terms_of(usual)}), "");
  EXPECT_EQ(disagreement_of({terms_of(usual), terms_of(usual)}), "");
  Options here = usual;
  here.data = "/elsewhere";
  here.threads = here.workers = 7;
  EXPECT_EQ(disagreement_of({terms_of(usual), terms_of(here)}), "");
  here.lr = 0.25;
  EXPECT_EQ(disagreement_of({terms_of(usual), terms_of(usual), terms_of(here)}),
            "all ranks need the same options, but --lr is 0.1 on rank 0 and 0.25 on rank 2");
  here = usual;
  here.sync = false;
  EXPECT_EQ(disagreement_of({terms_of(here), terms_of(usual)}),
            R"(all ranks need the same options, but --sync is "off" on rank 0 and "on" on rank 1)");
}

}  // namespace
}  // namespace imagenet
