// Gradients that are reduced in place, on ranks that are threads. Each rank chooses which of its gradients lie in
// shared memory.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "multirank/engine/world.h"

namespace kolo::test {
namespace {

const std::vector<std::int64_t> kCounts{5, 1000, 1000, 3000, 1, 777, 20000, 1000};
constexpr std::size_t kFrom = 3000;  // bytes: all but those of 5 and 1

std::vector<GradientInfo> table(const std::vector<std::int64_t>& counts = kCounts) {
  std::vector<GradientInfo> rows;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    rows.push_back({"p" + std::to_string(i), {counts[i]}, {1}, DType::f32});
  }
  return rows;
}

ReducerOptions in_place(ReduceOp op = ReduceOp::average) {
  ReducerOptions options;
  options.op = op;
  options.in_place_from = kFrom;
  return options;
}

float value_of(int rank, std::size_t index, int step) {
  return static_cast<float>((rank + 1) * 8 + static_cast<int>(index) + step);
}

// One rank's gradients of one step: in a block where `shares` says so and there is one, else of its own.
class Gradients {
 public:
  Gradients(std::shared_ptr<GradientMemory> memory, int rank, int step, const std::function<bool(std::size_t)>& shares)
      : memory_(std::move(memory)) {
    for (std::size_t i = 0; i < kCounts.size(); ++i) {
      const auto count = static_cast<std::size_t>(kCounts[i]);
      void* block = memory_ && shares(i) ? memory_->take(count * sizeof(float)) : nullptr;
      blocks_.push_back(block);
      own_.emplace_back(count);
      float* data = this->data(i);
      std::fill(data, data + count, value_of(rank, i, step));
    }
  }
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;
  ~Gradients() {
    for (void* block : blocks_) {
      if (block != nullptr) memory_->give_back(block);
    }
  }
  [[nodiscard]] float* data(std::size_t i) {
    return blocks_[i] != nullptr ? static_cast<float*>(blocks_[i]) : own_[i].data();
  }
  [[nodiscard]] bool shared(std::size_t i) const { return blocks_[i] != nullptr; }

 private:
  std::shared_ptr<GradientMemory> memory_;
  std::vector<void*> blocks_;
  std::vector<std::vector<float>> own_;
};

float sum_of(int size, std::size_t index, int step) {
  float sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += value_of(rank, index, step);
  return sum;
}

std::vector<float> result(GradientReducer& reducer, std::size_t index) {
  const auto bytes = reducer.gradient(index);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Config config(CoordinatorMode mode = CoordinatorMode::automatic) {
  auto config = quick(mode);
  config.bucket_bytes = 16 * 1024;
  config.last_bucket_bytes = 1024;
  return config;
}

class InPlaceGradients : public testing::TestWithParam<std::tuple<int, CoordinatorMode>> {};
INSTANTIATE_TEST_SUITE_P(Modes, InPlaceGradients,
                         testing::Combine(testing::Values(2, 3, 4),
                                          testing::Values(CoordinatorMode::automatic, CoordinatorMode::always,
                                                          CoordinatorMode::never)));

TEST_P(InPlaceGradients, AreReducedWithoutCopyBesidePackedGradients) {
  const auto [ranks, mode] = GetParam();
  run_world(ranks, config(mode), [](Context& context) {
    auto reducer = context.engine().make_reducer(table(), in_place(ReduceOp::sum));
    EXPECT_EQ(reducer->memory(), nullptr);
    for (int step = 0; step < 25; ++step) {
      Gradients gradients(reducer->memory(), context.rank(), step, [&](std::size_t i) {
        return (i * 7 + static_cast<std::size_t>(step * 3 + context.rank())) % 4 != 0;
      });
      std::uint64_t packed = 0;
      const auto copied = context.counters().at("bytes_copied");
      for (std::size_t i = kCounts.size(); i > 0; --i) {
        reducer->contribute_in_place(i - 1, gradients.data(i - 1));
        if (!gradients.shared(i - 1)) packed += static_cast<std::uint64_t>(kCounts[i - 1]) * sizeof(float);
      }
      reducer->finish();
      EXPECT_EQ(context.counters().at("bytes_copied") - copied, packed) << "step " << step;
      for (std::size_t i = 0; i < kCounts.size(); ++i) {
        EXPECT_EQ(far_from(sum_of(context.size(), i, step), result(*reducer, i)), 0) << "tensor " << i;
        EXPECT_EQ(static_cast<void*>(reducer->gradient(i).data()) == gradients.data(i), gradients.shared(i));
      }
    }
    EXPECT_EQ(context.counters().at("plan_misses"), 1U);
  });
}

TEST(InPlaceGradients, BlockReturnedDuringRoundIsNotReusedBeforeItsEnd) {
  run_world(2, config(), [](Context& context) {
    auto reducer = context.engine().make_reducer(table(), in_place());
    reducer->finish();
    const auto memory = reducer->memory();
    ASSERT_NE(memory, nullptr);
    void* block = memory->take(12000);
    ASSERT_NE(block, nullptr);
    std::memset(block, 0, 12000);
    reducer->contribute_in_place(3, block);
    memory->give_back(block);
    EXPECT_EQ(memory->take(12000), nullptr);
    reducer->finish();
    EXPECT_EQ(memory->take(12000), block);
  });
}

// The contributed memory stays unchanged.
TEST(InPlaceGradients, PartOfBlockAndReadOnlyContributionAreCopied) {
  run_world(2, config(), [](Context& context) {
    auto reducer = context.engine().make_reducer(table(), in_place(ReduceOp::sum));
    reducer->finish();
    const auto memory = reducer->memory();
    auto* block = static_cast<float*>(memory->take(80000));
    ASSERT_NE(block, nullptr);
    std::fill(block, block + 20000, 1.0F);
    reducer->contribute(6, block);
    reducer->contribute_in_place(1, block + 16);
    reducer->finish();
    EXPECT_EQ(std::count(block, block + 20000, 1.0F), 20000);
    EXPECT_THAT(result(*reducer, 6), testing::Each(2.0F));
    EXPECT_THAT(result(*reducer, 1), testing::Each(2.0F));
  });
}

// The round in which the table changes runs twice: first without effect, then with the new plan. Gradients in place
// must not be reduced twice.
TEST(InPlaceGradients, ChangedTableLeavesContributionsUnchanged) {
  for (const int announcer : {-1, 1}) {  // all ranks change, or one alone: an error
    run_world(3, config(), [&](Context& context) {
      auto reducer = context.engine().make_reducer(table(), in_place(ReduceOp::sum));
      reducer->finish();
      Gradients gradients(reducer->memory(), context.rank(), 1, [](std::size_t) { return true; });
      auto longer = kCounts;
      longer.push_back(900);
      if (announcer < 0 || announcer == context.rank()) reducer->change_table(table(longer));
      for (std::size_t i = 0; i < kCounts.size(); ++i) reducer->contribute_in_place(i, gradients.data(i));
      if (announcer >= 0) {
        EXPECT_THROW(reducer->finish(), MismatchError);
      } else {
        reducer->finish();
        for (std::size_t i = 0; i < kCounts.size(); ++i) {
          EXPECT_THAT(result(*reducer, i), testing::Each(sum_of(context.size(), i, 1))) << "tensor " << i;
        }
      }
      for (std::size_t i = 0; i < kCounts.size(); ++i) {
        const float* data = gradients.data(i);
        EXPECT_EQ(std::count(data, data + kCounts[i], value_of(context.rank(), i, 1)), kCounts[i]) << "tensor " << i;
      }
    });
  }
}

TEST(InPlaceGradients, NewPlanHasNewMemoryAndOldBlockStaysValid) {
  run_world(2, config(), [](Context& context) {
    auto reducer = context.engine().make_reducer(table(), in_place());
    reducer->finish();
    auto old = reducer->memory();
    auto* block = static_cast<float*>(old->take(80000));
    reducer->change_table(table({5, 3000}));
    reducer->finish();
    const auto fresh = reducer->memory();
    EXPECT_NE(fresh, old);
    EXPECT_FALSE(fresh->owns(block));
    std::fill(block, block + 20000, 1.0F);
    reducer.reset();
    EXPECT_EQ(std::count(block, block + 20000, 1.0F), 20000);
    old->give_back(block);
  });
}

// Contributions of the repeated round may lie in the old memory.
TEST(InPlaceGradients, OldMemoryIsReleasedWhenNextRoundBegins) {
  run_world(2, config(), [](Context& context) {
    auto reducer = context.engine().make_reducer(table(), in_place());
    reducer->finish();
    const std::weak_ptr<GradientMemory> old = reducer->memory();
    reducer->change_table(table({5, 3000}));
    reducer->finish();
    EXPECT_FALSE(old.expired());
    const std::vector<float> ones(3000, 1.0F);
    reducer->contribute(0, ones.data());
    EXPECT_TRUE(old.expired());
    reducer->finish();
    EXPECT_THAT(result(*reducer, 0), testing::Each(1.0F));
  });
}

TEST(InPlaceGradients, RoundAfterFailedRoundWorks) {
  run_world(3, config(), [](Context& context) {
    auto reducer = context.engine().make_reducer(table(), in_place(ReduceOp::sum));
    reducer->finish();
    for (int step = 0; step < 6; ++step) {
      const bool bad = step == 3;
      const auto train = [&] {
        // Unwinding gives the blocks back while buckets of theirs are on the way.
        Gradients gradients(reducer->memory(), context.rank(), step, [](std::size_t) { return true; });
        for (std::size_t i = 0; i < kCounts.size(); ++i) {
          if (bad && context.rank() == 1 && i == 6) throw std::runtime_error("bad batch");
          reducer->contribute_in_place(i, gradients.data(i));
        }
        reducer->finish();
        for (std::size_t i = 0; i < kCounts.size(); ++i) {
          EXPECT_THAT(result(*reducer, i), testing::Each(sum_of(context.size(), i, step))) << "step " << step;
        }
      };
      if (!bad) {
        train();
      } else if (context.rank() == 1) {
        EXPECT_THROW(context.run(train), std::runtime_error);
      } else {
        EXPECT_THROW(train(), PeerFailedError);
      }
    }
  });
}

TEST(InPlaceGradients, DifferentSettingOfRanksIsMismatchError) {
  run_world(2, config(), [](Context& context) {
    auto options = in_place();
    if (context.rank() == 1) options.in_place_from = 0;
    EXPECT_THROW((void)context.engine().make_reducer(table(), options), MismatchError);
  });
}

TEST(InPlaceGradients, SeveralRanksOnOneOfTwoHostsAreUsageError) {
  run_world(Hosts{0, 0, 1}, config(), [](Context& context) {
    EXPECT_THROW((void)context.engine().make_reducer(table(), in_place()), UsageError);
    auto reducer = context.engine().make_reducer(table(), {});
    reducer->finish();
    EXPECT_EQ(reducer->memory(), nullptr);
  });
}

TEST(InPlaceGradients, OneRankHasNoSharedMemory) {
  run_world(1, config(), [](Context& context) {
    auto reducer = context.engine().make_reducer(table(), in_place());
    std::vector<float> gradient(1000, 3.0F);
    reducer->finish();
    EXPECT_EQ(reducer->memory(), nullptr);
    reducer->contribute_in_place(1, gradient.data());
    reducer->finish();
    EXPECT_THAT(result(*reducer, 1), testing::Each(3.0F));
  });
}

}  // namespace
}  // namespace kolo::test
