// The answer of a rank for which others wait.
#include <gmock/gmock.h>

#include <thread>

#include "multirank/engine/node.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

// The waiting thread polls all the time. The answer must come anyway.
TEST(StallReport, WaitingRankNamesItsOperation) {
  for (const auto mode : {CoordinatorMode::never, CoordinatorMode::always}) {
    auto ends = transport::make_inproc(2);
    Node node(std::move(ends[0]), quick(mode));
    const std::vector<float> one{1.0F};
    Work work = node.engine().submit(allreduce("accuracy", one, nullptr));
    std::jthread waiter([&] { EXPECT_THROW(work.wait_for(2s), TimeoutError); });
    while (!node.engine().activity("loss").waits) std::this_thread::sleep_for(1ms);
    for (int i = 0; i < 20; ++i) {
      const auto said = node.engine().activity("loss");
      EXPECT_THAT(said.text, testing::ContainsRegex("has not submitted it; waiting in kolo for .* at 'accuracy'"));
    }
  }
}

}  // namespace
}  // namespace kolo::test
