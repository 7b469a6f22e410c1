// Rounds of gradients that go in two steps: NCCL inside each host, and between hosts, each rank its share, NCCL or the
// hosts.
#include <gmock/gmock.h>

#include <mutex>
#include <tuple>

#include "multirank/device/training.h"
#include "support/sanitizers.h"

namespace kolo::test {
namespace {

using Case = TrainingWorld;
class ShareRounds : public testing::TestWithParam<std::tuple<TwoSteps, Case>> {};
INSTANTIATE_TEST_SUITE_P(Worlds, ShareRounds,
                         testing::Combine(testing::ValuesIn(kTwoSteps),
                                          testing::Values(Case{{0, 0, 1, 1}}, Case{{0, 0, 1, 1}, true, 3},
                                                          Case{{0, 1, 1, 0, 1}, true}, Case{{0, 0, 1}, false, 1},
                                                          Case{{0, 1, 2}}, Case{one_host(2)})));

TEST_P(ShareRounds, AverageInAnyOrderThatTheWaitsAllow) {
  const auto& [way, world] = GetParam();
  check_orders(world, in_two_steps(way, world.hosts, small_buckets()), kSanitized ? 6 : 16);
}

// Rank 0 says once how it goes; on one host it goes in one step, and nothing is said.
std::vector<std::string> lines_about_steps(TwoSteps way, const Hosts& hosts) {
  std::mutex lock;
  std::vector<std::string> found;
  auto config = small_buckets();
  config.log_sink = [&](LogLevel, std::string_view line) {
    const std::scoped_lock hold(lock);
    if (line.find("in two steps") != std::string_view::npos) found.emplace_back(line);
  };
  check_training(in_two_steps(way, hosts, config), {.steps = 1});
  return found;
}

TEST(ShareLine, SaysHowGradientsGo) {
  using testing::AllOf;
  using testing::ElementsAre;
  using testing::HasSubstr;
  EXPECT_THAT(
      lines_about_steps(TwoSteps::nccl, {0, 0, 1, 1}),
      ElementsAre(AllOf(HasSubstr("each of 2 hosts"), HasSubstr("2 parts of each bucket"), HasSubstr("by NCCL"))));
  EXPECT_THAT(lines_about_steps(TwoSteps::staged, {0, 0, 1}),
              ElementsAre(AllOf(HasSubstr("1 part of each bucket"), HasSubstr("pinned memory in pieces of 512 KiB"))));
  EXPECT_THAT(lines_about_steps(TwoSteps::staged, one_host(2)), ElementsAre());
}

}  // namespace
}  // namespace kolo::test
