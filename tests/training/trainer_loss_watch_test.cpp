#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <vector>

#include "model.h"
#include "report.h"

namespace imagenet {
namespace {

using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Watched {
  std::vector<std::string> results;  // of each check on rank 0; rank 1 had the same
  std::string printed;               // by rank 0
};

// Two ranks, whose losses step by step are given, checked `at_a_time`.
Watched watch(const std::vector<std::vector<double>>& losses, OnNan on_nan, std::size_t at_a_time = 1) {
  testing::internal::CaptureStdout();
  auto contexts = kolo::Context::create_local(2);
  std::vector<std::vector<std::string>> results(2);
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      Reporter reporter(rank == 0, "", false);
      LossWatch loss_watch(*contexts[rank], reporter, on_nan);
      const std::vector<double>& mine = losses[rank];
      for (std::size_t step = 0; step < mine.size(); step += at_a_time) {
        const auto count = std::min(at_a_time, mine.size() - step);
        results[rank].push_back(
            loss_watch.check(static_cast<std::int64_t>(step), std::span(mine).subspan(step, count)));
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(results[0], results[1]) << "all ranks stop together, or none";
  return {results[0], testing::internal::GetCapturedStdout()};
}

TEST(LossWatch, ConsecutiveNonFiniteStepsGiveOneWarningWithStepAndRanks) {
  const Watched run = watch({{1, 2, 3, 4, 5, kInfinity, 7}, {1, 2, kNan, kNan, 5, -kInfinity, 7}}, OnNan::stop);
  EXPECT_EQ(run.printed,
            "warning: the loss of step 2 is not finite on rank 1\n"
            "warning: the loss of step 5 is not finite on ranks 0, 1\n");
  EXPECT_THAT(run.results, testing::Each(""));
}

TEST(LossWatch, NonFiniteLossOnMoreRanksGivesAnotherWarning) {
  const Watched run = watch({{1, 2, kNan}, {1, kNan, kNan}}, OnNan::stop);
  EXPECT_EQ(run.printed,
            "warning: the loss of step 1 is not finite on rank 1\n"
            "warning: the loss of step 2 is not finite on ranks 0, 1\n");
}

TEST(LossWatch, StopsAfterTwentyConsecutiveNonFiniteStepsOfAnyRanks) {
  std::vector<std::vector<double>> losses(2, std::vector<double>(50, 1.0));
  for (std::size_t step = 10; step < 50; ++step) losses[step % 2][step] = kNan;
  const Watched run = watch(losses, OnNan::stop);
  for (std::size_t step = 0; step < 29; ++step) EXPECT_EQ(run.results[step], "") << step;
  EXPECT_THAT(run.results[29], HasSubstr("20 consecutive steps up to step 29, on rank 1"));
}

TEST(LossWatch, ManyStepsInOneCheckStopAtTheSameStep) {
  std::vector<std::vector<double>> losses(2, std::vector<double>(50, 1.0));
  for (std::size_t step = 10; step < 50; ++step) losses[1][step] = kNan;
  const Watched run = watch(losses, OnNan::stop, 25);
  EXPECT_EQ(run.results[0], "");
  EXPECT_THAT(run.results[1], HasSubstr("20 consecutive steps up to step 29, on rank 1"));
  EXPECT_EQ(run.printed, "warning: the loss of step 10 is not finite on rank 1\n");
}

TEST(LossWatch, FiniteLossResetsCount) {
  std::vector<double> losses(60, kNan);
  losses[19] = losses[39] = losses[59] = 1;
  EXPECT_THAT(watch({losses, losses}, OnNan::stop).results, testing::Each(""));
}

TEST(LossWatch, NeverStopsWithOnNanWarn) {
  const std::vector<double> losses(50, kNan);
  EXPECT_THAT(watch({losses, losses}, OnNan::warn).results, testing::Each(""));
}

TEST(NonFiniteState, NamesTensorAndCountsNonFiniteValues) {
  const auto context = std::move(kolo::Context::create_local(1).front());
  ResNet model("resnet18", 3, false);
  EXPECT_EQ(non_finite_state(*context, model), "");
  const at::NoGradGuard no_grad;
  model.named_buffers()["bn1.running_var"][5] = kInfinity;
  EXPECT_EQ(non_finite_state(*context, model), "bn1.running_var has 1 values of 64 that are not finite");
  model.named_buffers()["bn1.running_var"][5] = 1;
  model.named_parameters()["fc.bias"].fill_(kNan);
  EXPECT_EQ(non_finite_state(*context, model), "fc.bias has 3 values of 3 that are not finite");
}

}  // namespace
}  // namespace imagenet
