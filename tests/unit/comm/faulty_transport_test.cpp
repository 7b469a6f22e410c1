// Our algorithms over a transport of which one rank's end misbehaves: late messages change nothing; lost, cut and
// missing ones are typed errors within the deadline, and never a wrong result.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <numeric>

#include "comm/make.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "support/faulty_transport.h"
#include "support/thread_ranks.h"
#include "telemetry/counters.h"
#include "transport/make.h"

namespace kolo::comm {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 3;
constexpr Rank kFaulty = 1;
constexpr std::size_t kCount = 30'000;  // floats; several segments a block

float value(Rank rank, std::size_t index) { return static_cast<float>(rank * 100 + static_cast<int>(index % 97)); }

float sum(std::size_t index) {
  float total = 0;
  for (Rank rank = 0; rank < kRanks; ++rank) total += value(rank, index);
  return total;
}

// One rank's memory. Outlives the transports: operations that were given up may still be delivered to.
struct Memory {
  explicit Memory(Rank rank) : data(kCount), output(kCount * kRanks) {
    for (std::size_t i = 0; i < kCount; ++i) data[i] = value(rank, i);
  }
  [[nodiscard]] std::byte* bytes() { return reinterpret_cast<std::byte*>(data.data()); }
  [[nodiscard]] std::byte* output_bytes() { return reinterpret_cast<std::byte*>(output.data()); }
  std::vector<float> data;
  std::vector<float> output;
  std::uint64_t flags[2] = {};
  std::vector<std::size_t> counts;
};

// Runs the collective; true when the result is right.
using Body = bool (*)(Communicator&, Memory&, std::chrono::milliseconds);

bool allreduce(Communicator& communicator, Memory& memory, std::chrono::milliseconds timeout) {
  AllreduceOptions options;
  options.data = memory.bytes();
  options.count = kCount;
  memory.flags[1] = std::uint64_t{1} << communicator.rank();
  options.flags = {memory.flags, 1};
  communicator.allreduce(options, timeout);
  for (std::size_t i = 0; i < kCount; ++i) {
    if (memory.data[i] != sum(i)) return false;
  }
  return memory.flags[0] == 0 && memory.flags[1] == (1U << kRanks) - 1;
}

bool broadcast(Communicator& communicator, Memory& memory, std::chrono::milliseconds timeout) {
  communicator.broadcast({memory.bytes(), kCount * sizeof(float), kFaulty}, timeout);
  for (std::size_t i = 0; i < kCount; ++i) {
    if (memory.data[i] != value(kFaulty, i)) return false;
  }
  return true;
}

bool allgather(Communicator& communicator, Memory& memory, std::chrono::milliseconds timeout) {
  memory.counts.assign(kRanks, kCount * sizeof(float));
  communicator.allgather({memory.bytes(), memory.counts, memory.output_bytes()}, timeout);
  for (Rank rank = 0; rank < kRanks; ++rank) {
    for (std::size_t i = 0; i < kCount; ++i) {
      if (memory.output[static_cast<std::size_t>(rank) * kCount + i] != value(rank, i)) return false;
    }
  }
  return true;
}

bool reduce_scatter(Communicator& communicator, Memory& memory, std::chrono::milliseconds timeout) {
  memory.counts = {kCount - 1000, 400, 600};
  ReduceScatterOptions options;
  options.input = memory.bytes();
  options.counts = memory.counts;
  options.output = memory.output_bytes();
  communicator.reduce_scatter(options, timeout);
  const auto own = static_cast<std::size_t>(communicator.rank());
  const std::size_t begin = std::accumulate(memory.counts.begin(), memory.counts.begin() + communicator.rank(), 0UL);
  for (std::size_t i = 0; i < memory.counts[own]; ++i) {
    if (memory.output[i] != sum(begin + i)) return false;
  }
  return true;
}

bool barrier(Communicator& communicator, Memory&, std::chrono::milliseconds timeout) {
  communicator.barrier(timeout);
  return true;
}

struct Named {
  const char* name;
  Body body;
};
constexpr Named kBodies[] = {{"allreduce", allreduce},
                             {"broadcast", broadcast},
                             {"allgather", allgather},
                             {"reduce_scatter", reduce_scatter},
                             {"barrier", barrier}};

// `each(communicator, memory)` on every rank, with the faulty end at one.
void run(const transport::Faults& faults, const std::function<void(Communicator&, Memory&)>& each) {
  std::vector<Memory> memory;
  for (Rank rank = 0; rank < kRanks; ++rank) memory.emplace_back(rank);
  auto ends = transport::make_inproc(kRanks);
  ends[kFaulty] = transport::make_faulty(std::move(ends[kFaulty]), faults);
  test::run_ranks(kRanks, [&](int rank) {
    AlgorithmicParts parts;
    telemetry::Counters counters;
    parts.transport = ends[static_cast<std::size_t>(rank)].get();
    parts.counters = &counters;
    parts.ring_segment_bytes = 8192;
    const auto communicator = make_algorithmic(parts);
    each(*communicator, memory[static_cast<std::size_t>(rank)]);
  });
}

class OverAFaultyTransport : public testing::TestWithParam<Named> {};

TEST_P(OverAFaultyTransport, LateMessagesChangeNothing) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    run({.seed = seed, .max_delay_tests = 20}, [](Communicator& communicator, Memory& memory) {
      EXPECT_TRUE(GetParam().body(communicator, memory, 60s)) << "rank " << communicator.rank();
    });
  }
}

// What became of it on each rank.
struct Ends {
  std::atomic<int> right = 0;
  std::atomic<int> timeouts = 0;
  std::atomic<int> refused = 0;
};

void run_to_its_end(const transport::Faults& faults, const Named& named, Ends& ends) {
  run(faults, [&](Communicator& communicator, Memory& memory) {
    try {
      EXPECT_TRUE(named.body(communicator, memory, 200ms)) << "a wrong result on rank " << communicator.rank();
      ++ends.right;
    } catch (const TimeoutError& error) {
      EXPECT_FALSE(error.missing().empty()) << error.what();
      ++ends.timeouts;
    } catch (const BackendError& error) {
      EXPECT_NE(std::string(error.what()).find(" bytes, not "), std::string::npos) << error.what();
      ++ends.refused;
    }
  });
}

TEST_P(OverAFaultyTransport, LostMessagesEndAtTheDeadline) {
  Ends ends;
  run_to_its_end({.drop = 1}, GetParam(), ends);
  EXPECT_EQ(ends.refused, 0);
  EXPECT_GT(ends.timeouts, 0);
}

// A gap in a stream of messages is beyond the contract of a Transport, so algorithms do not number theirs and what a
// rank has got may be wrong; but some rank misses a message, and nobody hangs.
TEST_P(OverAFaultyTransport, AGapEndsAtTheDeadlineSomewhere) {
  std::atomic<int> errors = 0;
  run({.seed = 2, .drop = 0.6}, [&](Communicator& communicator, Memory& memory) {
    try {
      GetParam().body(communicator, memory, 200ms);
    } catch (const Error&) {
      ++errors;
    }
  });
  EXPECT_GT(errors, 0);
}

TEST_P(OverAFaultyTransport, CutMessagesAreRefusedByWhoeverGetsThem) {
  Ends ends;
  run_to_its_end({.truncate = 1}, GetParam(), ends);
  if (std::string(GetParam().name) == "barrier") {
    EXPECT_EQ(ends.right, kRanks);  // its messages are empty
  } else {
    EXPECT_GT(ends.refused, 0);
  }
}

TEST_P(OverAFaultyTransport, ARankThatFallsSilentEndsAtTheDeadline) {
  for (const std::uint64_t from : {1U, 3U}) {
    Ends ends;
    run_to_its_end({.kill_at = from}, GetParam(), ends);
    EXPECT_EQ(ends.refused, 0);
    EXPECT_GT(ends.timeouts, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, OverAFaultyTransport, testing::ValuesIn(kBodies),
                         [](const auto& it) { return std::string(it.param.name); });

}  // namespace
}  // namespace kolo::comm
