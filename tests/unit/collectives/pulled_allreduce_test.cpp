// What the contract does not see of reading each other's memory: that nothing blocks, who is missing, that nothing is
// written over what a peer has not read, and a peer that is gone.
#include "collectives/pulled_allreduce.h"

#include <gtest/gtest.h>

#include <vector>

#include "comm/make.h"
#include "kolo/error.h"
#include "support/readable_memory.h"
#include "support/thread_ranks.h"
#include "transport/make.h"

namespace kolo::collectives {
namespace {

using namespace std::chrono_literals;

// Two ranks whose operations one thread advances as it likes.
class Pulled : public testing::Test {
 protected:
  static constexpr std::size_t kCount = 300'000;  // three chunks a half

  Pulled() {
    test::run_ranks(2, [&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      pulls_[r] = make_pulls(memories_[r], make_lanes(memories_[r], 60s));
      group_[r] = std::make_shared<Group>();
      group_[r]->transport = transports_[r].get();
      data_[r].assign(kCount, static_cast<float>(rank + 1));
    });
  }

  std::unique_ptr<Operation> start(std::size_t rank, std::size_t count = kCount) {
    AllreduceOptions options;
    options.data = reinterpret_cast<std::byte*>(data_[rank].data());
    options.count = count;
    return start_pulled_allreduce(group_[rank], pulls_[rank], options);
  }

  std::vector<std::unique_ptr<transport::Transport>> transports_ = transport::make_inproc(2);
  std::vector<std::unique_ptr<transport::SharedMemory>> plain_ = transport::make_inproc_shared_memory(2);
  test::ReadableMemory memories_[2]{test::ReadableMemory(*plain_[0]), test::ReadableMemory(*plain_[1])};
  std::shared_ptr<Pulls> pulls_[2];
  std::shared_ptr<Group> group_[2];
  std::vector<float> data_[2];
};

TEST_F(Pulled, NeverBlocksAndNamesTheMissing) {
  const auto first = start(0);
  for (int i = 0; i < 10; ++i) ASSERT_FALSE(first->advance());
  EXPECT_EQ(first->waiting_for(), std::vector<Rank>{1});
  EXPECT_EQ(data_[0], std::vector<float>(kCount, 1)) << "nobody has come, and nothing is changed";
  const auto second = start(1);
  ASSERT_FALSE(second->advance()) << "rank 0 has not reduced its half";
  ASSERT_FALSE(first->advance()) << "rank 1 has not fetched rank 0's half";
  ASSERT_TRUE(second->advance());
  ASSERT_TRUE(first->advance());
  EXPECT_EQ(data_[0], std::vector<float>(kCount, 3));
  EXPECT_EQ(data_[1], data_[0]);
}

TEST_F(Pulled, OperationsFollowEachOther) {
  for (int i = 0; i < 5; ++i) {
    data_[0].assign(kCount, static_cast<float>(i));
    data_[1].assign(kCount, 10);
    const auto first = start(0);
    const auto second = start(1);
    bool done = false;
    for (int looks = 0; looks < 10 && !done; ++looks) {
      const bool one = first->advance();
      done = second->advance() && one;
    }
    ASSERT_TRUE(done);
    ASSERT_EQ(data_[0], std::vector<float>(kCount, static_cast<float>(10 + i)));
    ASSERT_EQ(data_[1], data_[0]);
  }
}

// Whoever is gone is waited for, until the deadline or the monitor says so: his memory cannot be told from none.
TEST_F(Pulled, AGonePeerIsWaitedForAndItsMemoryNotTouched) {
  const auto first = start(0);
  const auto second = start(1);
  memories_[0].set_gone(true);
  for (int i = 0; i < 10; ++i) {
    ASSERT_FALSE(first->advance());
    ASSERT_FALSE(second->advance());
  }
  EXPECT_EQ(first->waiting_for(), std::vector<Rank>{1});
  EXPECT_EQ(data_[0], std::vector<float>(kCount, 1));
  memories_[0].set_gone(false);
  bool done = false;
  for (int looks = 0; looks < 10 && !done; ++looks) {
    const bool one = first->advance();
    done = second->advance() && one;
  }
  ASSERT_TRUE(done);
  EXPECT_EQ(data_[0], std::vector<float>(kCount, 3));
  EXPECT_EQ(data_[1], data_[0]);
}

// A rank that has fetched everything may still be read when its deadline passes, and its memory be used for something
// else: the peer must not take that for the result.
TEST_F(Pulled, WhatIsReadOfAPeerThatHasGivenUpDoesNotCount) {
  auto first = start(0);
  const auto second = start(1);
  ASSERT_FALSE(first->advance());
  ASSERT_FALSE(second->advance());  // reduces its half
  ASSERT_FALSE(first->advance());   // reduces its own, and fetches that one: it has its result
  EXPECT_EQ(data_[0], std::vector<float>(kCount, 3));
  first.reset();
  data_[0].assign(kCount, 77);
  EXPECT_THROW((void)second->advance(), BackendError);
}

TEST_F(Pulled, GivingUpIsThePeersErrorAtOnce) {
  auto first = start(0);
  const auto second = start(1);
  ASSERT_FALSE(first->advance());
  first.reset();
  data_[0].assign(kCount, 77);
  EXPECT_THROW((void)second->advance(), BackendError);
}

TEST_F(Pulled, AnotherCountIsAnErrorOnBoth) {
  const auto first = start(0);
  const auto second = start(1, kCount / 2);
  ASSERT_FALSE(first->advance());
  EXPECT_THROW((void)second->advance(), UsageError);
  EXPECT_THROW((void)first->advance(), UsageError);
  EXPECT_EQ(data_[0], std::vector<float>(kCount, 1));
  EXPECT_EQ(data_[1], std::vector<float>(kCount, 2));
}

TEST_F(Pulled, AfterOneThatWasGivenUpThereIsNoOther) {
  auto first = start(0);
  ASSERT_FALSE(first->advance());
  first.reset();
  EXPECT_THROW((void)start(0), UsageError);
}

}  // namespace
}  // namespace kolo::collectives
