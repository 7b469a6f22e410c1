#include <gtest/gtest.h>

#include "model.h"

namespace imagenet {
namespace {

constexpr int kGlobalBatch = 2048;  // a peak of 0.8

double at_epoch(const Options& options, double epoch) { return learning_rate(options, kGlobalBatch, epoch, 100); }

TEST(LearningRate, WarmUpIsLinearAndEndsAtThePeak) {
  const Options classic;
  EXPECT_NEAR(at_epoch(classic, 0.0), 0.8 / 500, 1e-12);
  EXPECT_NEAR(at_epoch(classic, 2.49), 0.4, 1e-12);
  EXPECT_NEAR(at_epoch(classic, 4.99), 0.8, 1e-12);
  EXPECT_DOUBLE_EQ(at_epoch(classic, 5.0), 0.8);
}

TEST(LearningRate, StepScheduleDividesByTenAtTheMilestones) {
  const Options classic;
  EXPECT_DOUBLE_EQ(at_epoch(classic, 29.99), 0.8);
  EXPECT_NEAR(at_epoch(classic, 30.0), 0.08, 1e-12);
  EXPECT_NEAR(at_epoch(classic, 60.0), 0.008, 1e-12);
  EXPECT_NEAR(at_epoch(classic, 89.99), 0.0008, 1e-12);
}

TEST(LearningRate, CosineFallsFromThePeakToZero) {
  Options cosine;
  cosine.schedule = ScheduleKind::cosine;
  EXPECT_DOUBLE_EQ(at_epoch(cosine, 5.0), 0.8);
  EXPECT_NEAR(at_epoch(cosine, 47.5), 0.4, 1e-12);
  EXPECT_NEAR(at_epoch(cosine, 90.0), 0.0, 1e-12);
  EXPECT_GT(at_epoch(cosine, 10), at_epoch(cosine, 11));
}

TEST(LearningRate, FirstStepWithoutWarmUpHasThePeak) {
  Options options;
  options.warmup_epochs = 0;
  EXPECT_DOUBLE_EQ(at_epoch(options, 0.0), 0.8);
}

TEST(LearningRate, PeakIsProportionalToGlobalBatch) {
  EXPECT_NEAR(learning_rate(Options{}, 256, 10, 100), 0.1, 1e-12);
  EXPECT_NEAR(learning_rate(Options{}, 8192, 10, 100), 3.2, 1e-12);
}

}  // namespace
}  // namespace imagenet
