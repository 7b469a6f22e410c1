#include <gtest/gtest.h>

#include "options.h"
#include "ranks.h"

namespace imagenet {
namespace {

TEST(Summary, ContainsEachTextOnceWithItsRanks) {
  EXPECT_EQ(summary_of({"", ""}), "");
  EXPECT_EQ(summary_of({"bad"}), "bad");
  EXPECT_EQ(summary_of({"bad", "bad", "bad"}), "bad");
  EXPECT_EQ(summary_of({"bad", "", "bad"}), "ranks 0, 2: bad");
  EXPECT_EQ(summary_of({"peer failed", "disk full", "peer failed"}), "ranks 0, 2: peer failed\nrank 1: disk full");
}

TEST(CommonOptions, FirstDifferenceIsNamedWithBothValuesAndRank) {
  Options usual;
  EXPECT_EQ(difference_of({common_options(usual)}), "");
  EXPECT_EQ(difference_of({common_options(usual), common_options(usual)}), "");
  Options here = usual;
  here.data = "/elsewhere";
  here.threads = here.workers = 7;
  EXPECT_EQ(difference_of({common_options(usual), common_options(here)}), "");
  here.lr = 0.25;
  EXPECT_EQ(difference_of({common_options(usual), common_options(usual), common_options(here)}),
            "all ranks need the same options, but --lr is 0.1 on rank 0 and 0.25 on rank 2");
  here = usual;
  here.sync = false;
  EXPECT_EQ(difference_of({common_options(here), common_options(usual)}),
            R"(all ranks need the same options, but --sync is "off" on rank 0 and "on" on rank 1)");
}

}  // namespace
}  // namespace imagenet
