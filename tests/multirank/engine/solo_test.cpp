// A reducer of one rank whose gradients stay where they are: they are the results, and nothing is copied.
#include <gtest/gtest.h>

#include <cstring>

#include "multirank/engine/world.h"

namespace kolo::test {
namespace {

const std::vector<GradientInfo> kTable{{"a", {5}, {1}, DType::f32}, {"b", {300}, {1}, DType::f32}};

ReducerOptions staying() {
  ReducerOptions options;
  options.contributions_stay = true;
  return options;
}

// One step. How many bytes it has copied.
std::uint64_t bytes_copied(Context& context, GradientReducer& reducer, const std::vector<std::vector<float>>& values) {
  const auto before = context.counters();
  for (std::size_t index = 0; index < values.size(); ++index) reducer.contribute(index, values[index].data());
  reducer.finish();
  return context.counters()["bytes_copied"] - before.at("bytes_copied");
}

bool lies_at(GradientReducer& reducer, std::size_t index, const std::vector<float>& values) {
  return static_cast<const void*>(reducer.gradient(index).data()) == values.data();
}

TEST(OneRankReducer, ResultsAreContributionsWithoutCopy) {
  run_world(1, quick(), [](Context& context) {
    EXPECT_EQ(context.failure(), nullptr);
    auto reducer = context.engine().make_reducer(kTable, staying());
    for (int step = 0; step < 3; ++step) {  // the first freezes the plan
      const std::vector<std::vector<float>> values{std::vector<float>(5, 1.0F * step), std::vector<float>(300, 2.0F)};
      EXPECT_EQ(bytes_copied(context, *reducer, values), 0U);
      for (std::size_t index = 0; index < 2; ++index) {
        EXPECT_TRUE(lies_at(*reducer, index, values[index]));
        EXPECT_TRUE(reducer->contributed(index));
      }
      EXPECT_EQ(values[0], std::vector<float>(5, 1.0F * step));
    }
  });
}

TEST(OneRankReducer, MissingGradientHasNoMemory) {
  run_world(1, quick(), [](Context& context) {
    auto reducer = context.engine().make_reducer(kTable, staying());
    const std::vector<float> values(300, 2.0F);
    for (int step = 0; step < 3; ++step) {
      reducer->contribute(1, values.data());
      EXPECT_TRUE(step == 0 || reducer->gradient(0).empty());  // in the middle of a round, too
      reducer->finish();
      EXPECT_FALSE(reducer->contributed(0));
      EXPECT_TRUE(reducer->gradient(0).empty());
      EXPECT_TRUE(lies_at(*reducer, 1, values));
    }
  });
}

TEST(OneRankReducer, CopiesIfScaledOrIfContributionsMayChange) {
  auto halved = staying();
  halved.postscale = 0.5;
  for (const auto& [options, factor] : {std::pair(halved, 0.5F), std::pair(ReducerOptions(), 1.0F)}) {
    run_world(1, quick(), [&, options = options, factor = factor](Context& context) {
      auto reducer = context.engine().make_reducer(kTable, options);
      const std::vector<std::vector<float>> values{std::vector<float>(5, 3.0F), std::vector<float>(300, 2.0F)};
      EXPECT_EQ(bytes_copied(context, *reducer, values), 305 * sizeof(float));
      float first = 0;
      std::memcpy(&first, reducer->gradient(0).data(), sizeof first);
      EXPECT_EQ(first, 3.0F * factor);
      EXPECT_FALSE(lies_at(*reducer, 0, values[0]));
    });
  }
}

TEST(OneRankReducer, RoundAfterFailedRoundWorks) {
  run_world(1, quick(), [](Context& context) {
    auto reducer = context.engine().make_reducer(kTable, staying());
    const std::vector<std::vector<float>> values{std::vector<float>(5, 3.0F), std::vector<float>(300, 2.0F)};
    for (int attempt = 0; attempt < 3; ++attempt) {
      EXPECT_THROW(context.run([&] {
        reducer->contribute(0, values[0].data());
        throw std::runtime_error("no more data");
      }),
                   std::runtime_error);
      EXPECT_EQ(bytes_copied(context, *reducer, values), 0U);
      EXPECT_TRUE(lies_at(*reducer, 1, values[1]));
    }
  });
}

}  // namespace
}  // namespace kolo::test
