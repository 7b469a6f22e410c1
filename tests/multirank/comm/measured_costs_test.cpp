// Measured constants of the cost model: whatever each rank saw, all go by the same, because a choice that differs
// between ranks is a hang.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/measure_costs.h"
#include "comm/select.h"
#include "kolo/context.h"
#include "kolo/error.h"
#include "support/thread_ranks.h"
#include "telemetry/counters.h"
#include "transport/make.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;
using Hosts = std::vector<std::vector<Rank>>;

// By size alone: a sanitizer on a busy machine is slower than any limit of time that is worth having.
constexpr comm::WaysMeasured kToLargest{.largest_bytes = 64 << 10, .longest = 10s};

struct Group {
  explicit Group(Hosts ranks) : hosts(std::move(ranks)) {
    for (const auto& host : hosts) size += static_cast<int>(host.size());
    shared.resize(static_cast<std::size_t>(size));
    for (const auto& host : hosts) {
      if (host.size() < 2) continue;
      auto memories = transport::make_inproc_shared_memory(static_cast<int>(host.size()));
      for (std::size_t i = 0; i < host.size(); ++i) shared[static_cast<std::size_t>(host[i])] = std::move(memories[i]);
    }
    transports = transport::make_inproc(size);
    counters = std::vector<telemetry::Counters>(transports.size());
    memory.resize(transports.size());
  }
  comm::Costs measure(int rank, std::chrono::milliseconds timeout = 60s) {
    const auto r = static_cast<std::size_t>(rank);
    comm::HierarchicalParts made;
    made.whole.transport = transports[r].get();
    made.whole.shared_memory = shared[r].get();
    made.whole.counters = &counters[r];
    made.whole.tag_count = 256;
    made.whole.timeout = timeout;
    made.hosts = hosts;
    return comm::measure_costs(made, memory[r], ways);
  }
  Hosts hosts;
  comm::WaysMeasured ways = kToLargest;
  int size = 0;
  std::vector<std::vector<float>> memory;                        // outlives the transports
  std::vector<std::unique_ptr<transport::SharedMemory>> shared;  // of a host's ranks; null where there is one
  std::vector<std::unique_ptr<transport::Transport>> transports;
  std::vector<telemetry::Counters> counters;
};

constexpr comm::Way kWays[] = {comm::Way::ring, comm::Way::tree, comm::Way::halving_doubling,
                               comm::Way::recursive_doubling, comm::Way::hierarchical};

class MeasuredCosts : public testing::TestWithParam<Hosts> {};

TEST_P(MeasuredCosts, AreEqualOnAllRanks) {
  Group group(GetParam());
  std::vector<comm::Costs> costs(static_cast<std::size_t>(group.size));
  run_ranks(group.size, [&](int rank) { costs[static_cast<std::size_t>(rank)] = group.measure(rank); });
  const comm::CostConstants& first = costs.front().constants;
  EXPECT_TRUE(first.measured);
  for (const comm::Costs& of_rank : costs) {
    const comm::CostConstants& other = of_rank.constants;
    EXPECT_EQ(other.network.alpha_us, first.network.alpha_us);
    EXPECT_EQ(other.network.beta_us, first.network.beta_us);
    EXPECT_EQ(other.host.alpha_us, first.host.alpha_us);
    EXPECT_EQ(other.host.beta_us, first.host.beta_us);
    EXPECT_EQ(other.sync_us, first.sync_us);
    EXPECT_EQ(other.gamma_us, first.gamma_us);
    EXPECT_EQ(other.whole_factor, first.whole_factor);
    EXPECT_EQ(other.partner_factor, first.partner_factor);
    for (const comm::Way way : kWays) {
      for (std::size_t bytes = 1; bytes < std::size_t{1} << 30; bytes *= 3) {
        ASSERT_EQ(of_rank.corrections.factor(way, bytes), costs.front().corrections.factor(way, bytes));
      }
    }
    EXPECT_EQ(comm::describe(of_rank), comm::describe(costs.front()));
  }
}

// Every way that the group has, and no other.
TEST_P(MeasuredCosts, CorrectWhatTheModelSaysOfEachWay) {
  Group group(GetParam());
  comm::Costs seen;
  run_ranks(group.size, [&](int rank) {
    const comm::Costs mine = group.measure(rank);
    if (rank == 0) seen = mine;
  });
  if (group.hosts.size() == 1) {
    EXPECT_TRUE(seen.corrections.empty());
    return;
  }
  const comm::Surroundings here{.size = group.size, .hosts = static_cast<int>(group.hosts.size())};
  EXPECT_TRUE(seen.corrections.are_of(here));
  EXPECT_EQ(seen.corrections.up_to(), kToLargest.largest_bytes);
  for (const comm::Way way : kWays) {
    const bool there = way != comm::Way::hierarchical || group.size > here.hosts;
    for (const std::size_t bytes : {8UL, 5000UL, 60'000UL}) {
      const double factor = seen.corrections.factor(way, bytes);
      EXPECT_GT(factor, 0) << comm::name_of(way);
      EXPECT_EQ(factor == 1, !there) << comm::name_of(way) << ", " << bytes << " bytes";
    }
  }
}

// What there is none of keeps its fixed value; the rest is a time. A time can by chance be the fixed value to the
// nanosecond (a meeting of two ranks takes about the 0.3 us that are fixed), so several measurements are looked at.
TEST_P(MeasuredCosts, AreOfTheLinksThereAre) {
  Group group(GetParam());
  group.ways.largest_bytes = 8;
  std::array<comm::CostConstants, 4> seen;
  run_ranks(group.size, [&](int rank) {
    for (comm::CostConstants& one : seen) {
      const comm::CostConstants mine = group.measure(rank).constants;
      if (rank == 0) one = mine;
    }
  });
  const comm::CostConstants fixed = comm::fixed_costs();
  const auto measured = [&](const auto& constant) {
    return std::any_of(seen.begin(), seen.end(), [&](const auto& one) { return constant(one) != constant(fixed); });
  };
  bool crowded = false;
  for (const auto& host : group.hosts) crowded = crowded || host.size() > 1;
  using Constants = comm::CostConstants;
  EXPECT_EQ(measured([](const Constants& one) { return one.network.beta_us; }), group.hosts.size() > 1);
  EXPECT_EQ(measured([](const Constants& one) { return one.host.beta_us; }), crowded);
  EXPECT_EQ(measured([](const Constants& one) { return one.sync_us; }), crowded);
  EXPECT_TRUE(measured([](const Constants& one) { return one.gamma_us; }));
  for (const Constants& one : seen) {
    for (const double value :
         {one.network.alpha_us, one.network.beta_us, one.host.alpha_us, one.host.beta_us, one.sync_us}) {
      EXPECT_GT(value, 0);
      EXPECT_LT(value, 1e6);
    }
    EXPECT_GE(one.whole_factor, 1);
    EXPECT_GE(one.partner_factor, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, MeasuredCosts,
                         testing::Values(Hosts{{0, 1}}, Hosts{{0}, {1}}, Hosts{{0}, {1}, {2}}, Hosts{{0, 1}, {2, 3}},
                                         Hosts{{0, 2, 4}, {1, 3}}, Hosts{{0, 1, 2, 3, 4, 5}}));

TEST(MeasuringCosts, EndsAtTheDeadlineWhenARankStaysAway) {
  Group group({{0}, {1}, {2}});
  run_ranks(3, [&](int rank) {
    if (rank == 1) return;
    try {
      (void)group.measure(rank, 200ms);
      ADD_FAILURE() << "rank " << rank << " ended without rank 1";
    } catch (const TimeoutError& error) {
      EXPECT_NE(std::string(error.what()).find("after 200 ms (KOLO_TIMEOUT)"), std::string::npos) << error.what();
    }
  });
}

// As where a container's /dev/shm is too small.
class NoMemory final : public transport::SharedMemory {
 public:
  explicit NoMemory(int local_rank) : local_rank_(local_rank) {}
  [[nodiscard]] int local_rank() const noexcept override { return local_rank_; }
  [[nodiscard]] int local_size() const noexcept override { return 2; }
  [[nodiscard]] std::unique_ptr<transport::SharedRegion> allocate(std::size_t, std::chrono::milliseconds) override {
    throw BackendError("no memory");
  }

 private:
  int local_rank_;
};

TEST(MeasuringCosts, AHostWithoutSharedMemoryKeepsNobodyWaiting) {
  Group group({{0, 1}, {2, 3}});
  for (const int local : {0, 1}) group.shared[static_cast<std::size_t>(2 + local)] = std::make_unique<NoMemory>(local);
  std::vector<comm::Costs> seen(4);
  run_ranks(4, [&](int rank) { seen[static_cast<std::size_t>(rank)] = group.measure(rank); });
  for (const auto& [constants, corrections] : seen) {
    EXPECT_EQ(constants.sync_us, seen[0].constants.sync_us);
    EXPECT_EQ(constants.network.alpha_us, seen[0].constants.network.alpha_us);
    EXPECT_NE(corrections.factor(comm::Way::ring, 8), 1);
    EXPECT_EQ(corrections.factor(comm::Way::hierarchical, 8), 1);  // cannot be had
  }
}

TEST(MeasuringCosts, AContextDoesItWhenAsked) {
  std::mutex mutex;
  std::vector<std::string> lines;
  Config config;
  config.cost_model = CostModel::measured;
  config.log_sink = [&](LogLevel /*level*/, std::string_view line) {
    const std::lock_guard lock(mutex);
    if (line.find("measured costs") != std::string_view::npos) lines.emplace_back(line);
  };
  auto contexts = Context::create_local(std::vector<int>{0, 1, 1, 2}, config);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines.front().find("corrected by what each way took"), std::string::npos) << lines.front();
  EXPECT_NE(lines.front().find("rank 0"), std::string::npos) << lines.front();
  run_ranks(4, [&](int rank) {
    Context& context = *contexts[static_cast<std::size_t>(rank)];
    EXPECT_NE(context.communicator().explain({}).reason.find("measured costs"), std::string::npos);
    for (const std::size_t count : {1UL, 5000UL, 300'000UL}) {
      std::vector<float> data(count, static_cast<float>(rank + 1));
      AllreduceOptions options;
      options.data = reinterpret_cast<std::byte*>(data.data());
      options.count = count;
      context.communicator().allreduce(options, 60s);
      EXPECT_EQ(data.front(), 10.0F);
      EXPECT_EQ(data.back(), 10.0F);
    }
  });
}

TEST(MeasuringCosts, IsNotDoneUnasked) {
  const auto contexts = Context::create_local(2);
  EXPECT_NE(contexts.front()->communicator().explain({}).reason.find("fixed costs"), std::string::npos);
}

}  // namespace
}  // namespace kolo::test
