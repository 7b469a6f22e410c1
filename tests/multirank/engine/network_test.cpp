// Two ranks on two hosts: progress over MPI, which moves data only in calls, and its cost.
#include <gtest/gtest.h>
#include <sched.h>

#include <cstring>
#include <thread>

#include "multirank/engine/world.h"
#include "support/rest.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Rounds of one gradient that does not fit into the buffers of sockets: both ranks must take part in many steps.
constexpr std::size_t kCount = std::size_t{4} << 20;

std::unique_ptr<GradientReducer> make_reducer(Context& context) {
  return context.engine().make_reducer({{"a", {static_cast<std::int64_t>(kCount)}, {1}, DType::f32}},
                                       ReducerOptions{.op = ReduceOp::sum, .settings = {}});
}

// Rank 0 submits and then computes, without a call of kolo, until its result is there or 30 s have passed. Rank 1
// waits.
void completes_beside_a_busy_thread(CoordinatorMode mode) {
  auto context = Context::create(quick(mode));
  ASSERT_EQ(context->placement().cross_size, context->size());
  const std::vector<float> input(kCount, static_cast<float>(context->rank() + 1));
  std::vector<float> output(kCount);
  auto work = context->engine().submit(allreduce("x", input, &output));
  if (context->rank() == 0) {
    const auto start = Clock::now();
    while (!work.done() && Clock::now() - start < 30s) {  // done() only looks
    }
    EXPECT_TRUE(work.done()) << "nobody moved it while this thread was busy";
  }
  work.wait();
  EXPECT_EQ(output.front(), 3.0F);
}

TEST(EngineOverNetwork, OperationCompletesWhileThreadIsBusy) {
  completes_beside_a_busy_thread(CoordinatorMode::automatic);
}

TEST(EngineOverNetwork, OperationCompletesWhileThreadIsBusyOnSameCore) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (std::size_t core = 0; CPU_COUNT(&one) == 0; ++core) {
    if (CPU_ISSET(core, &before)) CPU_SET(core, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  completes_beside_a_busy_thread(CoordinatorMode::automatic);
  sched_setaffinity(0, sizeof before, &before);
}

TEST(EngineOverNetwork, RoundsCompleteWithoutCoordinator) {
  auto context = Context::create(quick(CoordinatorMode::never));
  const std::vector<float> input(kCount, static_cast<float>(context->rank() + 1));
  auto reducer = make_reducer(*context);
  for (int round = 0; round < 3; ++round) {
    reducer->contribute(0, input.data());
    reducer->finish();
    float first = 0;
    std::memcpy(&first, reducer->gradient(0).data(), sizeof first);
    EXPECT_EQ(first, 3.0F);
  }
}

TEST(EngineOverNetwork, IdleRankNeitherCallsMpiNorSendsMessages) {
  auto context = Context::create(quick(CoordinatorMode::always));
  const std::vector<float> input(kCount, 1.0F);
  context->engine().submit(allreduce("x", input, nullptr)).wait();
  std::this_thread::sleep_for(300ms);  // until the last message has left and the coordinator has parked
  const auto before = context->counters();
  expect_rest(1);
  const auto after = context->counters();
  for (const auto* name : {"mpi_calls", "coordinator_wakeups", "messages_sent", "control_messages"}) {
    EXPECT_EQ(after.at(name), before.at(name)) << name;
  }
}

// Rank 0 is late. The wait of its peer and the peer's coordinator poll about once a millisecond; a wait that spins
// would poll a thousand times as often.
TEST(EngineOverNetwork, WaitForLatePeerSleepsBetweenPolls) {
  constexpr auto kLate = 2s;
  constexpr std::uint64_t kLooks = 20'000;
  auto context = Context::create(quick(CoordinatorMode::always));
  const std::vector<float> input(1000, 1.0F);
  context->engine().submit(allreduce("before", input, nullptr)).wait();
  if (context->rank() == 0) std::this_thread::sleep_for(kLate);
  const auto polls = context->counters().at("polls");
  context->engine().submit(allreduce("x", input, nullptr)).wait();
  if (context->rank() != 0) {
    EXPECT_LT(context->counters().at("polls") - polls, kLooks);
  }
}

// Without a coordinator, a rank that has its result must have sent what its peers need before the call returns.
TEST(EngineOverNetwork, MakeReducerSendsItsMessagesBeforeItReturns) {
  for (int world = 0; world < 5; ++world) {
    auto context = Context::create(quick(CoordinatorMode::never));
    auto reducer = make_reducer(*context);  // the first that these ranks' engines have to say to each other
    context->communicator().barrier(10s);
  }
}

}  // namespace
}  // namespace kolo::test
