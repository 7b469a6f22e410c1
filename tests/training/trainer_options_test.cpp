#include "options.h"

#include <gmock/gmock.h>

#include <sstream>
#include <vector>

#include "kolo/error.h"

namespace imagenet {
namespace {

Options parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "imagenet_resnet50");
  std::ostringstream out;
  return parse_options(static_cast<int>(arguments.size()), arguments.data(), out).value();
}

std::string complaint(const std::vector<const char*>& arguments) {
  try {
    parse(arguments);
  } catch (const kolo::UsageError& error) {
    return error.what();
  }
  return "none";
}

TEST(TrainerOptions, DefaultsAreTheClassicRecipe) {
  const Options o = parse({"--data", "/d"});
  EXPECT_EQ(o.arch, "resnet50");
  EXPECT_EQ(o.epochs, 90);
  EXPECT_EQ(o.batch, 32);
  EXPECT_EQ(o.val_batch, 32);
  EXPECT_EQ(o.image_size, 224);
  EXPECT_DOUBLE_EQ(o.lr, 0.1);
  EXPECT_DOUBLE_EQ(o.momentum, 0.9);
  EXPECT_DOUBLE_EQ(o.weight_decay, 1e-4);
  EXPECT_DOUBLE_EQ(o.warmup_epochs, 5);
  EXPECT_EQ(o.milestones, (std::vector<double>{30, 60, 80}));
  EXPECT_TRUE(o.sync);
  EXPECT_TRUE(o.channels_last);
  EXPECT_EQ(o.shared_gradients, Choice::automatic);
  EXPECT_EQ(o.overlap_update, Choice::automatic);
  EXPECT_EQ(o.optimizer, OptimizerKind::fused);
  EXPECT_EQ(o.device, DeviceKind::cpu);
  EXPECT_EQ(o.amp, Amp::off);
  EXPECT_EQ(o.on_nan, OnNan::stop);
  EXPECT_EQ(parse({"--data", "/d", "--on-nan", "warn"}).on_nan, OnNan::warn);
  EXPECT_THAT(complaint({"--data", "d", "--on-nan", "go"}), testing::HasSubstr("--on-nan"));
}

TEST(TrainerOptions, DeviceAndAmpAreParsedAndConflictsRefused) {
  EXPECT_EQ(parse({"--data", "d", "--device", "cuda"}).device, DeviceKind::cuda);
  EXPECT_EQ(parse({"--data", "d", "--amp", "bf16"}).amp, Amp::bf16);
  EXPECT_EQ(parse({"--data", "d", "--amp", "fp16"}).amp, Amp::fp16);
  using testing::HasSubstr;
  EXPECT_THAT(complaint({"--data", "d", "--device", "gpu"}), HasSubstr("--device"));
  EXPECT_THAT(complaint({"--data", "d", "--amp", "fp8"}), HasSubstr("--amp"));
  EXPECT_THAT(complaint({"--data", "d", "--sync", "off", "--shared-gradients", "on"}), HasSubstr("--sync off"));
  EXPECT_THAT(complaint({"--data", "d", "--device", "cuda", "--shared-gradients", "on"}),
              HasSubstr("--shared-gradients"));
}

TEST(TrainerOptions, UnknownArgumentIsNamedInError) {
  EXPECT_THAT(complaint({"--data", "d", "--stepz", "3", "--more"}), testing::StartsWith("unknown argument '--stepz'"));
  EXPECT_THAT(complaint({"--data", "d", "stray"}), testing::StartsWith("unknown argument 'stray'"));
}

TEST(TrainerOptions, OverlapUpdateWithConflictingOptionNamesTheConflict) {
  using testing::HasSubstr;
  EXPECT_EQ(parse({"--data", "d", "--overlap-update", "on"}).overlap_update, Choice::on);
  EXPECT_THAT(complaint({"--data", "d", "--sync", "off", "--overlap-update", "on"}), HasSubstr("--sync off"));
  EXPECT_THAT(complaint({"--data", "d", "--device", "cuda", "--overlap-update", "on"}), HasSubstr("--overlap-update"));
  EXPECT_THAT(complaint({"--data", "d", "--amp", "fp16", "--overlap-update", "on"}), HasSubstr("--amp fp16"));
  EXPECT_THAT(complaint({"--data", "d", "--optimizer", "torch", "--overlap-update", "on"}), HasSubstr("fused"));
}

TEST(TrainerOptions, EveryOptionCanBeSet) {
  const Options o = parse({"--arch",
                           "resnet18",
                           "--data",
                           "synthetic:host",
                           "--epochs",
                           "6",
                           "--steps",
                           "7",
                           "--batch",
                           "4",
                           "--image-size",
                           "64",
                           "--threads",
                           "1",
                           "--workers",
                           "2",
                           "--seed",
                           "9",
                           "--lr",
                           "0.5",
                           "--warmup-epochs",
                           "1.5",
                           "--schedule",
                           "cosine",
                           "--label-smoothing",
                           "0.1",
                           "--momentum",
                           "0.8",
                           "--weight-decay",
                           "0",
                           "--no-decay-norm-bias",
                           "--sync",
                           "off",
                           "--json",
                           "j",
                           "--memory-format",
                           "contiguous",
                           "--shared-gradients",
                           "off",
                           "--overlap-update",
                           "off",
                           "--optimizer",
                           "torch",
                           "--val-batch",
                           "5",
                           "--classes",
                           "3",
                           "--milestones",
                           "1,2.5"});
  EXPECT_EQ(o.arch, "resnet18");
  EXPECT_EQ(o.data_kind, DataKind::synthetic_host);
  EXPECT_EQ(o.steps, 7);
  EXPECT_EQ(o.schedule, ScheduleKind::cosine);
  EXPECT_EQ(o.milestones, (std::vector<double>{1, 2.5}));
  EXPECT_TRUE(o.no_decay_norm_bias);
  EXPECT_FALSE(o.sync);
  EXPECT_FALSE(o.channels_last);
  EXPECT_EQ(o.shared_gradients, Choice::off);
  EXPECT_EQ(o.overlap_update, Choice::off);
  EXPECT_EQ(o.optimizer, OptimizerKind::torch);
  EXPECT_EQ(o.val_batch, 5);
  EXPECT_EQ(o.classes, 3);
}

TEST(TrainerOptions, DefaultWarmUpIsNoLongerThanTraining) {
  EXPECT_DOUBLE_EQ(parse({"--data", "d", "--epochs", "1"}).warmup_epochs, 1);
  EXPECT_DOUBLE_EQ(parse({"--data", "d", "--epochs", "4"}).warmup_epochs, 4);
  EXPECT_DOUBLE_EQ(parse({"--data", "d", "--epochs", "6"}).warmup_epochs, 5);
  EXPECT_DOUBLE_EQ(parse({"--data", "d", "--epochs", "2", "--warmup-epochs", "0.5"}).warmup_epochs, 0.5);
}

TEST(TrainerOptions, InvalidOrMissingOptionIsNamedInError) {
  using testing::HasSubstr;
  EXPECT_THAT(complaint({}), HasSubstr("--data"));
  EXPECT_THAT(complaint({"--data", "synthetic:disk"}), HasSubstr("synthetic:jpeg"));
  EXPECT_THAT(complaint({"--data", "d", "--arch", "vgg"}), HasSubstr("--arch"));
  EXPECT_THAT(complaint({"--data", "d", "--batch", "0"}), HasSubstr("--batch"));
  EXPECT_THAT(complaint({"--data", "d", "--batch", "3x"}), HasSubstr("--batch"));
  EXPECT_THAT(complaint({"--data", "d", "--lr", "-1"}), HasSubstr("--lr"));
  EXPECT_THAT(complaint({"--data", "d", "--sync", "maybe"}), HasSubstr("--sync"));
  EXPECT_THAT(complaint({"--data", "d", "--epochs", "3", "--warmup-epochs", "5"}), HasSubstr("--warmup-epochs"));
  EXPECT_THAT(complaint({"--data", "d", "--milestones", "60,30"}), HasSubstr("--milestones"));
  EXPECT_THAT(complaint({"--data", "d", "--sync", "off", "--checkpoint-dir", "c"}), HasSubstr("--checkpoint-dir"));
  EXPECT_THAT(complaint({"--data", "d", "--nesterov", "--momentum", "0"}), HasSubstr("--nesterov"));
  EXPECT_THAT(complaint({"--data", "d", "--unknown"}), HasSubstr("--unknown"));
}

TEST(TrainerOptions, NonFiniteOrNegativeValueIsErrorThatNamesOption) {
  for (const char* option :
       {"--lr", "--warmup-epochs", "--milestones", "--momentum", "--weight-decay", "--label-smoothing"}) {
    for (const char* value : {"nan", "inf", "-5", "3x"}) {
      EXPECT_THAT(complaint({"--data", "d", option, value}), testing::HasSubstr(option)) << value;
    }
  }
}

TEST(TrainerOptions, HelpIsPrintedWithoutOptions) {
  const char* arguments[] = {"imagenet_resnet50", "--help"};
  std::ostringstream out;
  EXPECT_FALSE(parse_options(2, arguments, out).has_value());
  EXPECT_THAT(out.str(), testing::HasSubstr("--label-smoothing"));
  EXPECT_THAT(out.str(), testing::HasSubstr("--schedule cosine|step [step]"));
}

}  // namespace
}  // namespace imagenet
