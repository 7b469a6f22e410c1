// The engine with ranks that are processes, started by mpirun.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <cstring>

#include "multirank/engine/polling.h"
#include "multirank/engine/world.h"

namespace kolo::test {
namespace {

TEST(EngineOfProcesses, NamedOperationsAndRoundsGiveSums) {
  auto context = Context::create(quick());
  ASSERT_GT(context->size(), 1);
  const float sum = static_cast<float>(context->size() * (context->size() + 1)) / 2;
  const std::vector<float> input(70000, static_cast<float>(context->rank() + 1));
  auto reducer = context->engine().make_reducer({{"a", {70000}, {1}, DType::f32}, {"b", {1000}, {1}, DType::f32}},
                                                ReducerOptions{.op = ReduceOp::sum, .settings = {}});
  std::uint64_t messages = 0;
  for (int step = 0; step < 10; ++step) {
    if (step < 3) {
      std::vector<float> output(70000);
      context->engine().submit(allreduce("x", input, &output)).wait();
      EXPECT_THAT(output, testing::Each(sum));
    }
    if (step == 3) messages = context->counters().at("control_messages");
    if (step == 9) {  // before the last round: afterwards the first rank to leave says so
      EXPECT_EQ(context->counters().at("control_messages"), messages);
    }
    reducer->contribute(1, input.data());
    reducer->contribute(0, input.data());
    reducer->finish();
    for (const std::size_t i : {0, 1}) {
      float last = 0;
      std::memcpy(&last, reducer->gradient(i).data() + reducer->gradient(i).size() - sizeof last, sizeof last);
      EXPECT_EQ(last, sum);
    }
  }
}

TEST(EngineOfProcesses, PollingWithoutCoordinatorCompletesOperationsThatNeedMemory) {
  auto context = Context::create(quick(CoordinatorMode::never));
  check_operations(*context, Completion::polled);
}

TEST(EngineOfProcesses, PollingWithoutCoordinatorCompletesWithWaitingRanks) {
  auto context = Context::create(quick(CoordinatorMode::never));
  check_operations(*context, context->rank() == 0 ? Completion::polled : Completion::waited);
}

// Block by block, in another order on every rank: peers find each other's blocks through their own mappings.
TEST(EngineOfProcesses, InPlaceGradientsAreReducedWithoutCopy) {
  auto context = Context::create(quick());
  const std::vector<std::size_t> counts{70000, 1000, 70000, 5000};
  std::vector<GradientInfo> table;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    table.push_back({"p" + std::to_string(i), {static_cast<std::int64_t>(counts[i])}, {1}, DType::f32});
  }
  ReducerOptions options;
  options.op = ReduceOp::sum;
  options.in_place_from = 1;
  auto reducer = context->engine().make_reducer(table, options);
  reducer->finish();
  const auto memory = reducer->memory();
  ASSERT_NE(memory, nullptr);
  const auto copied = context->counters().at("bytes_copied");
  for (int step = 0; step < 8; ++step) {
    std::vector<float*> blocks(counts.size());
    for (std::size_t k = 0; k < counts.size(); ++k) {
      const std::size_t i = (k + static_cast<std::size_t>(context->rank() + step)) % counts.size();
      blocks[i] = static_cast<float*>(memory->take(counts[i] * sizeof(float)));
      ASSERT_NE(blocks[i], nullptr);
      std::fill(blocks[i], blocks[i] + counts[i], static_cast<float>(context->rank() + step));
      reducer->contribute_in_place(i, blocks[i]);
    }
    reducer->finish();
    const auto sum = static_cast<float>(context->size() * (context->size() - 1) / 2 + step * context->size());
    for (std::size_t i = 0; i < counts.size(); ++i) {
      EXPECT_EQ(std::count(blocks[i], blocks[i] + counts[i], sum), static_cast<std::ptrdiff_t>(counts[i]));
      memory->give_back(blocks[i]);
    }
  }
  EXPECT_EQ(context->counters().at("bytes_copied"), copied);
}

// Shared memory of one rank has room for buckets, but not for gradients too: all ranks pack their gradients.
TEST(EngineOfProcesses, GradientsArePackedIfMemoryOfOneRankIsShort) {
  auto context = Context::create(quick());
  context->engine().submit(allreduce("x", {1.0F}, nullptr)).wait();  // what it needs of memory is made
  constexpr std::int64_t kCount = 1 << 20;
  ReducerOptions options;
  options.op = ReduceOp::sum;
  options.in_place_from = 1;
  auto reducer = context->engine().make_reducer({{"a", {kCount}, {1}, DType::f32}}, options);
  const std::vector<float> mine(kCount, static_cast<float>(context->rank() + 1));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  if (context->rank() == 1) {  // of shared memory too; 4 MiB of buckets, and as much again of gradients
    const rlimit less{rlim_t{6} << 20, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &less), 0);
  }
  for (int step = 0; step < 3; ++step) {
    reducer->contribute(0, mine.data());
    reducer->finish();
    EXPECT_EQ(reducer->memory(), nullptr);
    float last = 0;
    std::memcpy(&last, reducer->gradient(0).data() + (kCount - 1) * sizeof last, sizeof last);
    EXPECT_EQ(last, static_cast<float>(context->size() * (context->size() + 1)) / 2);
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
}

TEST(EngineOfProcesses, TwoContextsWorkAtOnceAndCanBeCreatedAgain) {
  for (int repeat = 0; repeat < 2; ++repeat) {
    auto first = Context::create(quick());
    auto second = Context::create(quick());
    const std::vector<float> input(10, 1.0F);
    for (auto* context : {first.get(), second.get()}) {
      std::vector<float> output(10);
      context->engine().submit(allreduce("x", input, &output)).wait();
      EXPECT_THAT(output, testing::Each(static_cast<float>(context->size())));
    }
  }
}

}  // namespace
}  // namespace kolo::test
