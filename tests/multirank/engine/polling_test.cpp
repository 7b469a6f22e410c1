// Engine::progress() is the only call that advances named operations.
#include "multirank/engine/polling.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

class Polling : public testing::TestWithParam<std::tuple<Hosts, CoordinatorMode>> {
 protected:
  static void run(const std::function<Completion(Rank)>& completion) {
    const auto& [hosts, mode] = GetParam();
    run_world(hosts, quick(mode), [&](Context& context) { check_operations(context, completion(context.rank())); });
  }
};
INSTANTIATE_TEST_SUITE_P(Worlds, Polling,
                         testing::Combine(testing::Values(one_host(1), one_host(2), one_host(3), Hosts{0, 1},
                                                          Hosts{0, 0, 1, 1}, Hosts{0, 1, 1}),
                                          testing::Values(CoordinatorMode::never, CoordinatorMode::automatic)));

TEST_P(Polling, OnAllRanksCompletesOperationsThatNeedMemory) {
  run([](Rank) { return Completion::polled; });
}

TEST_P(Polling, OnOneRankCompletesOperationsThatOthersWaitFor) {
  run([](Rank rank) { return rank == 0 ? Completion::polled : Completion::waited; });
  run([](Rank rank) { return rank == 0 ? Completion::waited : Completion::polled; });
}

// Only the polling thread checks the timeout.
TEST(PollingWithoutCoordinator, FailsOperationThatOtherRankNeverSubmits) {
  auto config = quick(CoordinatorMode::never);
  config.timeout = 200ms;
  run_world(2, config, [](Context& context) {
    const std::vector<float> input(10, 1.0F);
    const std::size_t bytes = 64;
    static_cast<void>(context.communicator().allocate({&bytes, 1}, 20s));  // so that barrier() need not, in 200 ms
    if (context.rank() == 0) {
      Work work = context.engine().submit(allreduce("alone", input, nullptr));
      while (!work.done()) context.engine().progress();
      EXPECT_THROW(work.wait(), TimeoutError);
    }
    context.communicator().barrier(20s);
  });
}

}  // namespace
}  // namespace kolo::test
