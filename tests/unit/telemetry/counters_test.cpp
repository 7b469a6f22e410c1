#include "telemetry/counters.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace kolo::telemetry {
namespace {

TEST(Counters, SnapshotHasEveryCounterByName) {
  Counters counters;
  counters.bytes_copied.add(100);
  counters.bytes_copied.add(23);
  counters.plan_hits.add();
  const CounterSnapshot values = counters.snapshot();
  EXPECT_EQ(values.size(), sizeof(Counters) / sizeof(Counter));
  EXPECT_EQ(values.at("bytes_copied"), 123u);
  EXPECT_EQ(values.at("plan_hits"), 1u);
  EXPECT_EQ(values.at("plan_misses"), 0u);
  EXPECT_TRUE(values.contains("control_messages"));
  EXPECT_TRUE(values.contains("bytes_on_wire"));
}

TEST(Counters, AreExactFromManyThreads) {
  Counter sum, most;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 1; t <= 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 10000; ++i) {
        sum.add(t);
        most.raise_to(t * 100000 + i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum.value(), 100000u);
  EXPECT_EQ(most.value(), 409999u);
  most.raise_to(5);
  EXPECT_EQ(most.value(), 409999u);
}

}  // namespace
}  // namespace kolo::telemetry
