#include "schedule.h"

#include <gtest/gtest.h>

namespace imagenet {
namespace {

Schedule classic() { return {.peak = 0.8, .warmup_epochs = 5, .epochs = 90, .milestones = {30, 60, 80}}; }

TEST(TrainerSchedule, WarmUpIsLinearAndEndsAtThePeak) {
  const Schedule s = classic();
  EXPECT_NEAR(s.learning_rate(0.0, 100), 0.8 / 500, 1e-12);
  EXPECT_NEAR(s.learning_rate(2.49, 100), 0.4, 1e-12);
  EXPECT_NEAR(s.learning_rate(4.99, 100), 0.8, 1e-12);
  EXPECT_DOUBLE_EQ(s.learning_rate(5.0, 100), 0.8);
}

TEST(TrainerSchedule, StepsDivideByTenAtTheMilestones) {
  const Schedule s = classic();
  EXPECT_DOUBLE_EQ(s.learning_rate(29.99, 100), 0.8);
  EXPECT_NEAR(s.learning_rate(30.0, 100), 0.08, 1e-12);
  EXPECT_NEAR(s.learning_rate(60.0, 100), 0.008, 1e-12);
  EXPECT_NEAR(s.learning_rate(89.99, 100), 0.0008, 1e-12);
}

TEST(TrainerSchedule, CosineFallsFromThePeakToZero) {
  Schedule s = classic();
  s.kind = ScheduleKind::cosine;
  EXPECT_DOUBLE_EQ(s.learning_rate(5.0, 100), 0.8);
  EXPECT_NEAR(s.learning_rate(47.5, 100), 0.4, 1e-12);
  EXPECT_NEAR(s.learning_rate(90.0, 100), 0.0, 1e-12);
  EXPECT_GT(s.learning_rate(10, 100), s.learning_rate(11, 100));
}

TEST(TrainerSchedule, WithoutWarmUpTheFirstStepHasThePeak) {
  Schedule s = classic();
  s.warmup_epochs = 0;
  EXPECT_DOUBLE_EQ(s.learning_rate(0.0, 100), 0.8);
}

TEST(TrainerSchedule, PeakGrowsWithTheGlobalBatch) {
  EXPECT_NEAR(make_schedule(Options{}, 256).peak, 0.1, 1e-12);
  EXPECT_NEAR(make_schedule(Options{}, 8192).peak, 3.2, 1e-12);
}

}  // namespace
}  // namespace imagenet
