// What a rank costs that waits for nothing.
#include <gtest/gtest.h>

#include <thread>

#include "multirank/engine/world.h"
#include "support/processor_time.h"

namespace kolo::test {
namespace {

TEST(Idle, TakesLessThanHalfAPercentOfACore) {
  constexpr int kRanks = 4;
  auto contexts = Context::create_local(kRanks, quick(CoordinatorMode::always));
  run_ranks(kRanks, [&](int rank) {
    const std::vector<float> input(8, 1.0F);
    contexts[static_cast<std::size_t>(rank)]->engine().submit(allreduce("x", input, nullptr)).wait();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // until the last coordinator has parked
  const auto wakeups = contexts[0]->counters().at("coordinator_wakeups");
  EXPECT_LT(idle_cost(), kRanks * kIdleCost);
  EXPECT_EQ(contexts[0]->counters().at("coordinator_wakeups"), wakeups);
}

}  // namespace
}  // namespace kolo::test
