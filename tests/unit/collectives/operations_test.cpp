// What operations promise beyond their results: progress without waiting, names of the missing, errors that stay.
#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <vector>

#include "collectives/direct_allreduce.h"
#include "collectives/ring.h"
#include "collectives/widen.h"
#include "comm/make.h"
#include "kolo/error.h"
#include "support/thread_ranks.h"
#include "transport/make.h"

namespace kolo::collectives {
namespace {

// Two ranks in one thread: every advance() returns, and rank 0 says that it waits for rank 1.
TEST(Operations, NeverBlockAndNameTheMissing) {
  auto transports = transport::make_inproc(2);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (auto& transport : transports) {
    comm::AlgorithmicParts parts;
    parts.transport = transport.get();
    ranks.push_back(comm::make_algorithmic(parts));
  }
  std::vector<float> a(100000, 1);
  std::vector<float> b(100000, 2);
  AllreduceOptions options;
  options.data = reinterpret_cast<std::byte*>(a.data());
  options.count = a.size();
  const auto first = ranks[0]->start(options);
  for (int i = 0; i < 10; ++i) ASSERT_FALSE(first->advance());
  EXPECT_EQ(first->waiting_for(), std::vector<Rank>{1});
  options.data = reinterpret_cast<std::byte*>(b.data());
  const auto second = ranks[1]->start(options);
  bool done = false;
  for (int i = 0; i < 100000 && !done; ++i) {
    const bool one = first->advance();
    done = second->advance() && one;
  }
  ASSERT_TRUE(done);
  EXPECT_EQ(a, std::vector<float>(100000, 3));
  EXPECT_EQ(b, a);
}

TEST(Operations, AbandonedMemoryIsRefused) {
  auto transports = transport::make_inproc(2);
  auto memories = transport::make_inproc_shared_memory(2);
  test::run_ranks(2, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    comm::AlgorithmicParts parts;
    parts.transport = transports[r].get();
    parts.shared_memory = memories[r].get();
    const auto communicator = comm::make_algorithmic(parts);
    const std::size_t sizes[] = {1 << 16};
    auto buffers = communicator->allocate(sizes, std::chrono::seconds(60));
    AllreduceOptions options;
    options.registered = buffers[0].get();
    options.data = buffers[0]->data().data();
    options.count = 1 << 14;
    if (rank == 0) {
      auto operation = communicator->start(options);
      EXPECT_FALSE(operation->advance());
      operation.reset();
      EXPECT_THROW((void)communicator->start(options), UsageError);
    }
  });
}

TEST(Slices, CoverTheArrayInLines) {
  for (const std::size_t count : {0U, 1U, 15U, 16U, 17U, 1000U}) {
    for (const int parts : {1, 2, 3, 7}) {
      std::size_t next = 0;
      for (int i = 0; i < parts; ++i) {
        const Range range = part_of(count, parts, i, 16);
        EXPECT_EQ(range.begin, next);
        EXPECT_TRUE(range.begin % 16 == 0 || range.begin == count);
        next = range.end;
      }
      EXPECT_EQ(next, count);
    }
  }
}

TEST(Widen, ThereAndBack) {
  const std::vector<std::int8_t> values = {-128, -1, 0, 1, 127};
  std::vector<std::int64_t> wide(values.size());
  widen(reinterpret_cast<const std::byte*>(values.data()), DType::i8, values.size(), wide.data());
  EXPECT_EQ(wide, (std::vector<std::int64_t>{-128, -1, 0, 1, 127}));
  std::vector<std::int8_t> back(values.size());
  narrow(wide.data(), DType::i8, wide.size(), reinterpret_cast<std::byte*>(back.data()));
  EXPECT_EQ(back, values);
  EXPECT_FALSE(can_widen(DType::i64));
  EXPECT_FALSE(can_widen(DType::boolean));
}

}  // namespace
}  // namespace kolo::collectives
