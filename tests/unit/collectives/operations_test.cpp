// What operations promise beyond their results: progress without waiting, names of the missing, errors that stay.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "collectives/direct_allreduce.h"
#include "collectives/machine.h"
#include "collectives/ring.h"
#include "collectives/widen.h"
#include "comm/make.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
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

// Else messages of one would be taken for those of another that has the same tags.
TEST(Operations, AreRefusedWhileTheirTagsAreInUse) {
  constexpr std::size_t kMost = 4;
  auto transports = transport::make_inproc(2);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (auto& transport : transports) {
    comm::AlgorithmicParts parts;
    parts.transport = transport.get();
    parts.tag_count = 2 * kMost;
    ranks.push_back(comm::make_algorithmic(parts));
  }
  for (int round = 0; round < 3; ++round) {
    std::vector<float> data[2][kMost];
    std::vector<std::unique_ptr<Operation>> operations;
    AllreduceOptions options;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      for (auto& each : data[rank]) {
        each.assign(1000, static_cast<float>(rank + 1));
        options.data = reinterpret_cast<std::byte*>(each.data());
        options.count = each.size();
        operations.push_back(ranks[rank]->start(options));
      }
      if (rank == 1) continue;
      EXPECT_THROW((void)ranks[0]->start(options), UsageError);
    }
    for (int looks = 0; looks < 1000 && !operations.empty(); ++looks) {
      std::erase_if(operations, [](auto& operation) { return operation->advance(); });
    }
    ASSERT_TRUE(operations.empty());
    for (const auto& of_rank : data) {
      for (const auto& each : of_rank) EXPECT_EQ(each, std::vector<float>(1000, 3));
    }
  }
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

// Is never complete, until it is told to be or to fail.
class Told final : public QueuedMachine {
 public:
  Told(const std::shared_ptr<Group>& group, TurnQueue& queue) : QueuedMachine(group, nullptr, queue) {}
  [[nodiscard]] std::vector<Rank> waiting_for() const override { return {}; }

  bool fails = false;
  std::optional<Rank> loses;
  bool is_done = false;
  int turns = 0;

 private:
  bool turn() override {
    ++turns;
    if (fails) throw BackendError("told to fail");
    if (loses) throw PeerLostError(*loses, "told to lose a rank");
    return is_done;
  }
};

class Turns : public testing::Test {
 protected:
  Turns() { group_->transport = transports_.front().get(); }
  static std::string error_of(Operation& operation) {
    try {
      static_cast<void>(operation.advance());
      return "none";
    } catch (const BackendError& error) {
      return error.what();
    }
  }

  std::vector<std::unique_ptr<transport::Transport>> transports_ = transport::make_inproc(1);
  std::shared_ptr<Group> group_ = std::make_shared<Group>();
  TurnQueue queue_;
  TurnQueue other_queue_;
};

TEST_F(Turns, WhoeverIsAdvancedTheFirstOfTheQueueIsRunAndBecomesComplete) {
  Told first(group_, queue_);
  Told second(group_, queue_);
  EXPECT_FALSE(second.advance());
  EXPECT_EQ(first.turns, 1);
  EXPECT_EQ(second.turns, 0);
  first.is_done = true;
  EXPECT_FALSE(second.advance());
  EXPECT_TRUE(first.complete());
  EXPECT_EQ(second.turns, 1);
}

TEST_F(Turns, AnErrorStaysWithTheOperationThatMetItAndEndsWhatWaitsBehindIt) {
  auto first = std::make_unique<Told>(group_, queue_);
  Told second(group_, queue_);
  Told third(group_, queue_);
  Told of_other_memory_of_the_group(group_, other_queue_);
  first->fails = true;
  EXPECT_EQ(error_of(second), "told to fail");
  first->fails = false;
  first->is_done = true;
  EXPECT_EQ(error_of(*first), "told to fail");  // and is not tried again
  EXPECT_EQ(first->turns, 1);
  first.reset();
  EXPECT_EQ(error_of(third), "told to fail");
  EXPECT_EQ(error_of(second), "told to fail");
  EXPECT_EQ(second.turns + third.turns, 0);
  EXPECT_THROW(Told(group_, queue_), BackendError);
  EXPECT_FALSE(of_other_memory_of_the_group.advance());
  EXPECT_EQ(group_->pending.size(), 1U);
}

// On any memory of the group: its first failure, whatever failed after it.
TEST_F(Turns, OperationsThatBeginAfterAPeerWasLostThrowThatLoss) {
  const auto lost_rank_of_next = [&](TurnQueue& queue) {
    try {
      const Told next(group_, queue);
    } catch (const PeerLostError& error) {
      return error.rank();
    } catch (const UsageError&) {
      return -2;
    }
    return -1;
  };
  auto first = std::make_unique<Told>(group_, queue_);
  auto second = std::make_unique<Told>(group_, other_queue_);
  first->loses = 3;
  EXPECT_THROW((void)first->advance(), PeerLostError);
  second->loses = 1;
  EXPECT_THROW((void)second->advance(), PeerLostError);
  EXPECT_EQ(lost_rank_of_next(queue_), 3);
  EXPECT_EQ(lost_rank_of_next(other_queue_), 3);
  first.reset();
  second.reset();
  EXPECT_EQ(lost_rank_of_next(queue_), 3);
  EXPECT_EQ(lost_rank_of_next(other_queue_), 3);
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
