// The CPU time of a rank without an operation in flight.
#include <gtest/gtest.h>

#include <thread>

#include "multirank/engine/world.h"
#include "support/rest.h"

namespace kolo::test {
namespace {

// Waits until all coordinators sleep.
std::uint64_t wakeups_at_rest(const Context& context) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::uint64_t before = 0;
  std::uint64_t now = context.counters().at("coordinator_wakeups");
  do {
    before = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    now = context.counters().at("coordinator_wakeups");
  } while (now != before && std::chrono::steady_clock::now() < end);
  return now;
}

TEST(IdleEngine, NeitherSpinsNorPolls) {
  constexpr int kRanks = 4;
  auto contexts = Context::create_local(kRanks, quick(CoordinatorMode::always));
  run_ranks(kRanks, [&](int rank) {
    const std::vector<float> input(8, 1.0F);
    contexts[static_cast<std::size_t>(rank)]->engine().submit(allreduce("x", input, nullptr)).wait();
  });
  const auto wakeups = wakeups_at_rest(*contexts[0]);
  expect_rest(kRanks);
  EXPECT_EQ(contexts[0]->counters().at("coordinator_wakeups"), wakeups);
}

}  // namespace
}  // namespace kolo::test
