// The callback of finish(), which is called for each gradient as soon as it is reduced.
#include <gmock/gmock.h>

#include <atomic>
#include <cstring>
#include <set>

#include "multirank/engine/world.h"

namespace kolo::test {
namespace {

// With one bucket for each gradient.
std::vector<GradientInfo> table() {
  return {{"a", {1000}, {1}, DType::f32}, {"b", {2000}, {1}, DType::f32}, {"c", {3000}, {1}, DType::f32}};
}
ReducerOptions bucket_each() {
  ReducerOptions options;
  options.bucket_bytes = 1;
  return options;
}

class Gradients {
 public:
  void fill(float value) {
    for (std::size_t i = 0; i < 3; ++i) values_[i].assign(1000 * (i + 1), value);
  }
  void contribute(GradientReducer& reducer, std::size_t i) const { reducer.contribute(i, values_[i].data()); }

 private:
  std::vector<float> values_[3];
};

// All elements have the value.
bool is_all(GradientReducer& reducer, std::size_t index, float value) {
  const auto bytes = reducer.gradient(index);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return !values.empty() && std::ranges::all_of(values, [value](float each) { return each == value; });
}

class OnReduced : public testing::TestWithParam<std::tuple<Hosts, CoordinatorMode>> {};
INSTANTIATE_TEST_SUITE_P(Worlds, OnReduced,
                         testing::Combine(testing::Values(Hosts{0}, one_host(2), one_host(4), Hosts{0, 1},
                                                          Hosts{0, 0, 1, 1}),
                                          testing::Values(CoordinatorMode::never, CoordinatorMode::always)));

TEST_P(OnReduced, IsCalledOnceForEachTensorExceptInNegotiatedRounds) {
  const auto& [hosts, mode] = GetParam();
  run_world(hosts, quick(mode), [](Context& context) {
    auto reducer = context.engine().make_reducer(table(), bucket_each());
    Gradients gradients;
    const auto mean = static_cast<float>(context.size() + 1) / 2;
    for (int step = 0; step < 20; ++step) {
      gradients.fill(static_cast<float>(step * (context.rank() + 1)));
      std::multiset<std::size_t> seen;
      for (std::size_t i = 0; i < 3; ++i) {
        if (i != 1 || step % 2 == 0) gradients.contribute(*reducer, i);  // the second by nobody in odd steps
      }
      reducer->finish({}, [&](std::size_t index) {
        seen.insert(index);
        EXPECT_EQ(reducer->contributed(index), index != 1 || step % 2 == 0);
        if (reducer->contributed(index)) {
          EXPECT_TRUE(is_all(*reducer, index, static_cast<float>(step) * mean));
        }
      });
      EXPECT_EQ(seen, step == 0 ? std::multiset<std::size_t>() : (std::multiset<std::size_t>{0, 1, 2}));
      EXPECT_TRUE(is_all(*reducer, 2, static_cast<float>(step) * mean));
    }
  });
}

// Rank 1 contributes its last gradient after rank 0 has got the first result.
TEST_P(OnReduced, IsCalledBeforeLastGradientIsContributed) {
  const auto& [hosts, mode] = GetParam();
  if (hosts.size() < 2) return;
  std::atomic<int> seen{0};
  run_world(hosts, quick(mode), [&](Context& context) {
    auto reducer = context.engine().make_reducer(table(), bucket_each());
    Gradients gradients;
    gradients.fill(1);
    for (int step = 0; step < 10; ++step) {
      gradients.contribute(*reducer, 0);
      gradients.contribute(*reducer, 1);
      while (context.rank() == 1 && seen.load() < step) reducer->progress();
      gradients.contribute(*reducer, 2);
      reducer->finish({}, [&](std::size_t index) {
        if (index == 0 && context.rank() == 0) seen.store(step);
      });
    }
  });
  EXPECT_EQ(seen.load(), 9);
}

TEST_P(OnReduced, RoundMayFailAfterCall) {
  const auto& [hosts, mode] = GetParam();
  if (hosts.size() < 2) return;
  std::atomic<bool> seen{false};
  run_world(hosts, quick(mode), [&](Context& context) {
    auto reducer = context.engine().make_reducer(table(), bucket_each());
    Gradients gradients;
    gradients.fill(1);
    const bool throws = context.rank() == 1;
    for (int step = 0; step < 5; ++step) {
      std::set<std::size_t> passed;
      const auto train = [&] {
        gradients.contribute(*reducer, 0);
        gradients.contribute(*reducer, 1);
        if (step == 2 && throws) {
          while (!seen.load()) reducer->progress();
          throw std::runtime_error("bad batch");
        }
        gradients.contribute(*reducer, 2);
        reducer->finish({}, [&](std::size_t index) {
          passed.insert(index);
          if (step == 2 && context.rank() == 0) seen.store(true);
        });
      };
      if (step != 2) {
        train();
        EXPECT_EQ(passed.size(), step % 3 == 0 ? 0U : 3U) << step;  // a failure voids the plan too
      } else if (throws) {
        EXPECT_THROW(context.run(train), std::runtime_error);
      } else {
        EXPECT_THROW(train(), PeerFailedError);
        EXPECT_FALSE(passed.contains(2));
      }
    }
  });
}

TEST(OnReduced, IsCalledForReducedTensorsBeforeTimeoutError) {
  Config config = quick();
  config.timeout = std::chrono::milliseconds(500);
  std::atomic<bool> over{false};
  run_world(2, config, [&](Context& context) {
    auto reducer = context.engine().make_reducer(table(), bucket_each());
    Gradients gradients;
    gradients.fill(1);
    for (int step = 0; step < 2; ++step) {
      for (std::size_t i = 0; i < 3; ++i) {
        if (step == 1 && context.rank() == 1 && i == 2) {
          while (!over.load()) reducer->progress();
          return;
        }
        gradients.contribute(*reducer, i);
      }
      std::set<std::size_t> passed;
      try {
        reducer->finish({}, [&](std::size_t index) { passed.insert(index); });
        EXPECT_EQ(step, 0);
      } catch (const TimeoutError& error) {
        EXPECT_THAT(error.missing(), testing::ElementsAre(1));
        EXPECT_EQ(passed, (std::set<std::size_t>{0, 1}));
      }
    }
    over.store(true);
  });
}

}  // namespace
}  // namespace kolo::test
