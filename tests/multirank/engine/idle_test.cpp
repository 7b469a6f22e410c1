// What a rank costs that waits for nothing.
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <thread>

#include "multirank/engine/world.h"

namespace kolo::test {
namespace {

std::chrono::microseconds processor_time() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

// Processor time, which other programs do not disturb.
TEST(Idle, TakesLessThanHalfAPercentOfACore) {
  constexpr int kRanks = 4;
  constexpr std::chrono::microseconds kIdle = std::chrono::seconds(2);
  auto contexts = Context::create_local(kRanks, quick(CoordinatorMode::always));
  run_ranks(kRanks, [&](int rank) {
    const std::vector<float> input(8, 1.0F);
    contexts[static_cast<std::size_t>(rank)]->engine().submit(allreduce("x", input, nullptr)).wait();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // until the last coordinator has parked
  const auto wakeups = contexts[0]->counters().at("coordinator_wakeups");
  const auto before = processor_time();
  std::this_thread::sleep_for(kIdle);
  EXPECT_LT(processor_time() - before, kRanks * kIdle / 200);
  EXPECT_EQ(contexts[0]->counters().at("coordinator_wakeups"), wakeups);
}

}  // namespace
}  // namespace kolo::test
