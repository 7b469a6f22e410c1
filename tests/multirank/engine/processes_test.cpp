// The engine between processes: the same world, started by mpirun.
#include <gmock/gmock.h>

#include <cstring>

#include "multirank/engine/world.h"

namespace kolo::test {
namespace {

TEST(Processes, NamedRequestsAndRounds) {
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

TEST(Processes, AContextCanBeMadeAgainAndTwoMayLiveAtOnce) {
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
