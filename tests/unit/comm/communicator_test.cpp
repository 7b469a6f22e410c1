// The blocking forms, against a scripted communicator.
#include <gtest/gtest.h>

#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "support/fake_communicator.h"

namespace kolo::comm {
namespace {

using namespace std::chrono_literals;

TEST(Drive, AdvancesUntilComplete) {
  FakeScript script;
  script.advances = 5;
  int reduced = 0;
  script.allreduce = [&reduced](const AllreduceOptions& options) { reduced += static_cast<int>(options.count); };
  FakeCommunicator communicator(script);
  AllreduceOptions options;
  options.count = 7;
  communicator.allreduce(options, 60s);
  EXPECT_EQ(reduced, 7);
  communicator.barrier(60s);
  EXPECT_EQ(communicator.calls(), (std::vector<std::string>{"allreduce 7", "barrier"}));
}

TEST(Drive, TimeoutNamesOperationAndMissingRanks) {
  FakeScript script;
  script.size = 4;
  script.never_completes = 0;
  script.waiting_for = {1, 3};
  FakeCommunicator communicator(script);
  try {
    communicator.broadcast({}, 20ms);
    FAIL() << "no TimeoutError";
  } catch (const TimeoutError& error) {
    EXPECT_EQ(error.missing(), (std::vector<Rank>{1, 3}));
    EXPECT_NE(std::string(error.what()).find("broadcast"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("ranks 1, 3"), std::string::npos);
  }
}

TEST(Drive, BuffersThatNobodyCouldHaveAreRefused) {
  FakeCommunicator communicator({});
  constexpr std::size_t kMost = ~std::size_t{0};
  for (const auto& sizes : {std::vector<std::size_t>{kMost}, {kMost / 2 + 1, kMost / 2 + 1}, {kMost - 5000, 6000}}) {
    EXPECT_THROW((void)communicator.allocate(sizes, 60s), UsageError);
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their own allocators end the program instead
  EXPECT_THROW((void)communicator.allocate(std::vector<std::size_t>{kMost / 4}, 60s), BackendError);  // only too much
#endif
  EXPECT_EQ(communicator.allocate(std::vector<std::size_t>{0, 10}, 60s).back()->data().size(), 10U);
}

TEST(Drive, ErrorsComeOut) {
  FakeScript script;
  script.fail_advance = 1;
  script.error = [] { throw PeerLostError(1, "rank 1 has died"); };
  FakeCommunicator communicator(script);
  communicator.barrier(60s);
  EXPECT_THROW(communicator.barrier(60s), PeerLostError);
  communicator.barrier(60s);
}

// An operation that gets on with every advance() but the first 1000, for which it waits.
class LateStart final : public Operation {
 public:
  explicit LateStart(int& advances) : advances_(advances) {}
  bool advance() override { return ++advances_ == 5000; }
  [[nodiscard]] std::vector<Rank> waiting_for() const override { return {}; }

 private:
  int& advances_;
};

class MovingCommunicator final : public FakeCommunicator {
 public:
  MovingCommunicator() : FakeCommunicator({}) {}
  [[nodiscard]] bool made_progress() noexcept override { return advances > 1000; }
  void wait_for_activity(std::chrono::microseconds /*at_most*/) override { sleeps += advances > 1000 ? 1 : 0; }
  int advances = 0;
  int sleeps = 0;
};

TEST(Drive, DoesNotSleepWhileItMoves) {
  MovingCommunicator communicator;
  LateStart operation(communicator.advances);
  communicator.drive(operation, 60s, "test");
  EXPECT_EQ(communicator.advances, 5000);
  EXPECT_EQ(communicator.sleeps, 0);
}

}  // namespace
}  // namespace kolo::comm
