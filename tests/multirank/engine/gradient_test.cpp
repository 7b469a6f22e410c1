// Rounds of gradients between ranks that are threads.
#include <gmock/gmock.h>

#include <cstring>

#include "multirank/engine/world.h"

namespace kolo::test {
namespace {

using Gradients = std::vector<std::vector<float>>;

std::vector<GradientInfo> table(const std::vector<std::int64_t>& counts) {
  std::vector<GradientInfo> rows;
  for (std::size_t i = 0; i < counts.size(); ++i)
    rows.push_back({"p" + std::to_string(i), {counts[i]}, {1}, DType::f32});
  return rows;
}

const std::vector<std::int64_t> kCounts{5, 1000, 64, 3000, 1, 777, 20000};

float value_of(int rank, std::size_t index, int step) {
  return static_cast<float>((rank + 1) * 8 + static_cast<int>(index) + step);
}

float mean_of(int size, std::size_t index, int step, int missing_rank = -1) {
  float sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += rank == missing_rank ? 0 : value_of(rank, index, step);
  return sum / static_cast<float>(size);
}

Gradients make_gradients(int rank, int step) {
  Gradients gradients;
  for (std::size_t i = 0; i < kCounts.size(); ++i) gradients.emplace_back(kCounts[i], value_of(rank, i, step));
  return gradients;
}

std::vector<float> result(GradientReducer& reducer, std::size_t index) {
  const auto bytes = reducer.gradient(index);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

void expect_means(GradientReducer& reducer, int size, int step) {
  for (std::size_t i = 0; i < kCounts.size(); ++i) {
    const auto values = result(reducer, i);
    ASSERT_EQ(values.size(), static_cast<std::size_t>(kCounts[i]));
    EXPECT_EQ(far_from(mean_of(size, i, step), values), 0) << "tensor " << i << " step " << step;
    EXPECT_TRUE(reducer.contributed(i));
  }
}

struct Case {
  Hosts hosts;
  CoordinatorMode mode;
};
class GradientRound : public testing::TestWithParam<Case> {
 protected:
  static Config config() {
    auto config = quick(GetParam().mode);
    config.bucket_bytes = 16 * 1024;
    config.last_bucket_bytes = 1024;
    return config;
  }
};
INSTANTIATE_TEST_SUITE_P(
    Modes, GradientRound,
    testing::Values(Case{one_host(1), CoordinatorMode::automatic}, Case{one_host(2), CoordinatorMode::automatic},
                    Case{one_host(2), CoordinatorMode::always}, Case{one_host(2), CoordinatorMode::never},
                    Case{one_host(3), CoordinatorMode::automatic}, Case{one_host(4), CoordinatorMode::always},
                    Case{one_host(8), CoordinatorMode::never}));
INSTANTIATE_TEST_SUITE_P(Hosts, GradientRound,
                         testing::Values(Case{{0, 1, 2}, CoordinatorMode::automatic},
                                         Case{{0, 0, 1, 1}, CoordinatorMode::automatic},
                                         Case{{0, 1, 0, 1}, CoordinatorMode::never},
                                         Case{{0, 0, 0, 1}, CoordinatorMode::always},
                                         Case{{0, 1, 1, 2}, CoordinatorMode::automatic}));

TEST_P(GradientRound, AveragesWithoutControlMessagesAfterFirstRounds) {
  run_world(GetParam().hosts, config(), [](Context& context) {
    auto reducer = context.engine().make_reducer(table(kCounts), {});
    std::uint64_t messages = 0;
    for (int step = 0; step < 20; ++step) {
      if (step == 2) messages = context.counters().at("control_messages");
      if (step == 19) {
        EXPECT_EQ(context.counters().at("control_messages"), messages);
      }
      const auto gradients = make_gradients(context.rank(), step);
      for (std::size_t i = gradients.size(); i > 0; --i) reducer->contribute(i - 1, gradients[i - 1].data());
      reducer->finish();
      expect_means(*reducer, context.size(), step);
    }
    EXPECT_EQ(context.counters().at("plan_misses"), 1U);
    EXPECT_EQ(context.counters().at("plan_hits"), 19U);
  });
}

TEST_P(GradientRound, OrderOfContributionsMayDifferOnEveryRankAndStep) {
  run_world(GetParam().hosts, config(), [](Context& context) {
    auto reducer = context.engine().make_reducer(table(kCounts), {});
    for (int step = 0; step < 20; ++step) {
      const auto gradients = make_gradients(context.rank(), step);
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        const std::size_t index = (i * 3 + static_cast<std::size_t>(context.rank() + step)) % gradients.size();
        reducer->contribute(index, gradients[index].data());
      }
      reducer->finish();
      expect_means(*reducer, context.size(), step);
    }
  });
}

TEST_P(GradientRound, MissingGradientsCountAsZeros) {
  run_world(GetParam().hosts, config(), [](Context& context) {
    auto reducer = context.engine().make_reducer(table(kCounts), {});
    for (int step = 0; step < 6; ++step) {
      const auto gradients = make_gradients(context.rank(), step);
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        if (i == 1 && context.rank() == 0) continue;  // missing on one rank
        if (i == 3) continue;                         // missing on all
        reducer->contribute(i, gradients[i].data());
      }
      reducer->finish();
      EXPECT_EQ(reducer->contributed(1), context.size() > 1);
      EXPECT_FALSE(reducer->contributed(3));
      EXPECT_TRUE(reducer->contributed(0));
      EXPECT_THAT(result(*reducer, 1), testing::Each(testing::FloatNear(mean_of(context.size(), 1, step, 0), 1e-4F)));
      EXPECT_THAT(result(*reducer, 3), testing::Each(0.0F));
    }
  });
}

TEST(GradientReducer, ContributingTwiceIsUsageErrorThatNamesTensor) {
  run_world(1, quick(), [](Context& context) {
    auto reducer = context.engine().make_reducer(table(kCounts), {});
    const auto gradients = make_gradients(0, 0);
    reducer->contribute(1, gradients[1].data());
    try {
      reducer->contribute(1, gradients[1].data());
      ADD_FAILURE();
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("'p1'"));
    }
    EXPECT_THROW(reducer->contribute(99, gradients[1].data()), UsageError);
    reducer->finish();
  });
}

TEST(GradientReducer, InvalidTableOfOneRankIsUsageErrorOnEveryRank) {
  const std::vector<std::pair<std::string, void (*)(std::vector<GradientInfo>&, ReducerOptions&)>> cases = {
      {"gradient 'p2': strides [2] of sizes [64] leave gaps", [](auto& rows, auto&) { rows[2].strides = {2}; }},
      {"gradient 'p2': strides [0] of sizes [64]", [](auto& rows, auto&) { rows[2].strides = {0}; }},
      {"gradient 'p2': 2 strides for 1 sizes",
       [](auto& rows, auto&) {
         rows[2].strides = {1, 1};
       }},
      {"gradient 'p2': strides [1, 1] of sizes [8, 8]",
       [](auto& rows, auto&) {
         rows[2].sizes = {8, 8};
         rows[2].strides = {1, 1};
       }},
      {"gradient 'p2': a negative size", [](auto& rows, auto&) { rows[2].sizes = {-64}; }},
      {"sum or average", [](auto&, auto& options) { options.op = ReduceOp::max; }},
      {"no such tensor", [](auto&, auto& options) { options.refused = "no such tensor"; }}};
  for (const int ranks : {1, 3}) {
    run_world(ranks, quick(), [&](Context& context) {
      const Rank odd = context.size() - 1;
      for (const auto& [text, change] : cases) {
        auto rows = table(kCounts);
        ReducerOptions options;
        if (context.rank() == odd) change(rows, options);
        try {
          auto reducer = context.engine().make_reducer(rows, options);
          ADD_FAILURE() << text << ": no error on rank " << context.rank();
        } catch (const UsageError& error) {
          EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr(text),
                                                   testing::HasSubstr("refused on rank " + std::to_string(odd))));
        }
      }
      auto reducer = context.engine().make_reducer(table(kCounts), {});
      const auto gradients = make_gradients(context.rank(), 0);
      for (std::size_t i = 0; i < kCounts.size(); ++i) reducer->contribute(i, gradients[i].data());
      reducer->finish();
      expect_means(*reducer, context.size(), 0);
    });
  }
}

TEST(GradientReducer, ChangedTableWithGapsIsUsageError) {
  run_world(1, quick(), [](Context& context) {
    auto reducer = context.engine().make_reducer(table(kCounts), {});
    auto rows = table(kCounts);
    rows[2].strides = {2};
    EXPECT_THROW(reducer->change_table(rows), UsageError);
  });
}

TEST(GradientReducer, DifferentTablesAreMismatchErrorOfMakeReducer) {
  run_world(3, quick(), [](Context& context) {
    auto rows = table(kCounts);
    if (context.rank() == 1) {
      rows[2].sizes = {8, 8};
      rows[2].strides = {8, 1};
    }
    try {
      auto reducer = context.engine().make_reducer(rows, {});
      ADD_FAILURE() << "no error on rank " << context.rank();
    } catch (const MismatchError& error) {
      EXPECT_THAT(error.what(),
                  testing::AllOf(testing::HasSubstr("p2"), testing::HasSubstr("[64]"), testing::HasSubstr("[8, 8]")));
    }
    auto reducer = context.engine().make_reducer(table(kCounts), {});
    reducer->finish();
  });
}

class ReducerAgreement : public testing::TestWithParam<Hosts> {};
INSTANTIATE_TEST_SUITE_P(Hosts, ReducerAgreement, testing::Values(one_host(3), Hosts{0, 1, 0}, Hosts{0, 0, 1, 1}));

TEST_P(ReducerAgreement, TableChangedOnAllRanksIsNegotiatedAndOnOneRankIsMismatchError) {
  run_world(GetParam(), quick(), [](Context& context) {
    auto reducer = context.engine().make_reducer(table({10, 20}), {});
    const std::vector<float> ones(100, 1.0F);
    const auto round = [&](std::size_t tensors) {
      for (std::size_t i = 0; i < tensors; ++i) reducer->contribute(i, ones.data());
      reducer->finish();
      for (std::size_t i = 0; i < tensors; ++i) EXPECT_THAT(result(*reducer, i), testing::Each(1.0F));
    };
    round(2);
    round(2);
    reducer->change_table(table({10, 20, 30}));
    round(3);
    round(3);
    EXPECT_EQ(context.counters().at("plans_voided"), 1U);

    if (context.rank() == 1) reducer->change_table(table({10, 20, 30, 40}));
    for (std::size_t i = 0; i < 3; ++i) reducer->contribute(i, ones.data());
    try {
      reducer->finish();
      ADD_FAILURE() << "no error on rank " << context.rank();
    } catch (const MismatchError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("tensor p3 exists on rank 1 but not on rank"));
    }
    if (context.rank() == 1) reducer->change_table(table({10, 20, 30}));
    round(3);
    round(3);
  });
}

TEST_P(ReducerAgreement, DifferentStepFingerprintsAreMismatchErrorAndEqualOnesSendNoMessage) {
  run_world(GetParam(), quick(), [](Context& context) {
    auto reducer = context.engine().make_reducer(table({10, 20}), ReducerOptions{.bucket_bytes = 64});
    const std::vector<float> ones(20, 1.0F);
    const auto round = [&](std::uint64_t fingerprint) {
      reducer->set_step_fingerprint(fingerprint);
      for (std::size_t i = 0; i < 2; ++i) reducer->contribute(i, ones.data());
      reducer->finish();
      for (std::size_t i = 0; i < 2; ++i) EXPECT_THAT(result(*reducer, i), testing::Each(1.0F));
    };
    const bool odd = context.rank() == 1;
    round(7);
    round(7);
    const std::uint64_t messages = context.counters().at("control_messages");
    round(8);
    round(odd ? 0 : 8);  // 0 agrees with any
    round(odd ? 8 : 0);
    EXPECT_EQ(context.counters().at("control_messages"), messages);
    EXPECT_EQ(context.counters().at("plans_voided"), 0U);
    try {
      round(odd ? 9 : 8);
      ADD_FAILURE() << "no error on rank " << context.rank();
    } catch (const MismatchError& error) {
      EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("\"step fingerprint 8\" on rank "),
                                               testing::HasSubstr("\"step fingerprint 9\" on rank 1"),
                                               testing::HasSubstr("learning rates (step fingerprints)")));
    }
    reducer->contribute(0, ones.data());  // the error has set all fingerprints to 0
    reducer->finish();
    for (int step = 0; step < 2; ++step) round(8);
  });
}

TEST(GradientReducer, TwoReducersReduceAlternately) {
  run_world(2, quick(), [](Context& context) {
    auto generator = context.engine().make_reducer(table({10, 200}), {});
    auto critic = context.engine().make_reducer(table({3000}), ReducerOptions{.op = ReduceOp::sum, .settings = {}});
    const std::vector<float> ones(3000, 1.0F);
    for (int step = 0; step < 10; ++step) {
      critic->contribute(0, ones.data());
      generator->contribute(1, ones.data());
      critic->finish();
      generator->contribute(0, ones.data());
      generator->finish();
      EXPECT_THAT(result(*critic, 0), testing::Each(2.0F));
      EXPECT_THAT(result(*generator, 1), testing::Each(1.0F));
    }
  });
}

// All ranks change their table before a step in which one rank fails. The failed rank has not announced its change yet.
TEST(GradientReducer, FailureIsNotReportedAsMismatchOfChangedTable) {
  run_world(3, quick(), [&](Context& context) {
    const auto reducer = context.engine().make_reducer(table({100, 50}), {});
    const std::vector<float> ones(200, 1.0F);
    for (int step = 0; step < 6; ++step) {
      const auto whole = [&] {
        const std::size_t count = step < 3 ? 2 : 3;
        if (step == 3 || (step == 4 && context.rank() == 1)) reducer->change_table(table({100, 50, 200}));
        for (std::size_t index = 0; index < count; ++index) reducer->contribute(index, ones.data());
        reducer->finish();
      };
      if (step != 3) {
        context.run(whole);
      } else if (context.rank() == 1) {
        EXPECT_THROW(context.run([] { throw std::runtime_error("bad batch"); }), std::runtime_error);
      } else {
        EXPECT_THROW(context.run(whole), PeerFailedError);
      }
    }
  });
}

// The second round of one rank must not be matched with the next step of the others. Without a plan, with a plan, and
// on all ranks.
TEST(GradientReducer, SecondRoundOfStepOnOneRankOnlyIsMismatchError) {
  run_world(2, quick(), [&](Context& context) {
    const auto reducer = context.engine().make_reducer(table({100, 50}), {});
    const std::vector<float> ones(100, 1.0F);
    const auto round = [&](bool another) {
      for (const std::size_t index : {1, 0}) reducer->contribute(index, ones.data());
      if (another) reducer->need_another_round("'late'");
      reducer->finish();
    };
    for (int step = 0; step < 3; ++step) {
      try {
        round(context.rank() == 1);
        ADD_FAILURE() << "no error";
      } catch (const MismatchError& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("a second round of this step for 'late'\" on rank 1"));
      }
      round(true);
      round(false);
    }
    EXPECT_EQ(reducer->round(), 9U);
  });
}

// A bucket leaves during backward on one rank, and at the end of the round on the other.
TEST(GradientReducer, PlanIsKeptIfBucketsLeaveAtDifferentTimes) {
  run_world(2, quick(), [&](Context& context) {
    const auto reducer = context.engine().make_reducer(
        table({100, 50}), ReducerOptions{.op = ReduceOp::sum, .bucket_bytes = 256, .settings = {}});
    const std::vector<float> ones(100, 1.0F);
    std::uint64_t generation = 0;
    for (int step = 0; step < 4; ++step) {
      reducer->contribute(1, ones.data());
      if (context.rank() == 0) reducer->contribute(0, ones.data());
      reducer->need_another_round("'late'");
      reducer->finish();
      if (step == 0) generation = reducer->generation();
      EXPECT_EQ(reducer->generation(), generation);
      EXPECT_EQ(*reinterpret_cast<const float*>(reducer->gradient(0).data()), 1);
      EXPECT_EQ(*reinterpret_cast<const float*>(reducer->gradient(1).data()), 2);
    }
  });
}

}  // namespace
}  // namespace kolo::test
