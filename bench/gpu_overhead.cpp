// What kolo costs a training step of one GPU: ResNet-50, one model in one process, trained with kolo and without in
// turns, so that all run the same convolutions. A rank that is alone packs nothing; "kolo, packing" has it pack all the
// same, and so costs what a rank among others pays beside the exchange itself.
// gpu_overhead [BATCH [bf16|fp16|off [BLOCKS]]]; JSON lines on stdout.
#include <ATen/Functions.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "gpu_profile.h"
#include "kolo/torch/torch.h"
#include "model.h"
#include "options.h"
#include "ranks.h"

namespace kolo::bench {
namespace {

constexpr int kWarmUp = 6, kSteps = 20, kProfiled = 4;

enum Way : std::size_t { without, kolo, packing, kWays };
constexpr const char* kNames[] = {"without kolo", "kolo", "kolo, packing"};

class Training {
 public:
  Training(Context& context, const imagenet::Options& options)
      : context_(context),
        compute_(imagenet::make_compute(context, options)),
        model_(std::make_shared<imagenet::ResNet>(options.arch, options.classes, false)) {
    imagenet::use_channels_last(*model_);
    imagenet::move_to_device(*model_, compute_.device);
    optimizer_ = imagenet::make_optimizer(options, *model_);
    if (options.amp == imagenet::Amp::fp16) scaler_.emplace();
    const auto on_device = at::TensorOptions().device(compute_.device);
    const std::int64_t batch = options.batch, side = options.image_size;
    images_ = at::randn({batch, 3, side, side}, on_device).contiguous(at::MemoryFormat::ChannelsLast);
    labels_ = at::randint(options.classes, {batch}, on_device.dtype(at::kLong));
  }
  void go(Way way) {
    distributed_.reset();
    optimizer_->zero_grad();
    DistributedOptions options;
    if (way == packing) {  // gradients that are to be multiplied go the way of those of several ranks
      options.prescale = 0.5;
      options.postscale = 2;
    }
    if (way != without) distributed_.emplace(context_, optimizer_, model_->named_parameters(), options);
    for (int step = 0; step < kWarmUp; ++step) train();
  }
  void train() {
    const at::Tensor loss = at::cross_entropy_loss(imagenet::logits_of(compute_, *model_, images_), labels_);
    (scaler_ ? scaler_->scale(loss) : loss).backward();
    if (distributed_) {
      scaler_ ? static_cast<void>(scaler_->step(*distributed_)) : static_cast<void>(distributed_->step());
    } else {
      scaler_ ? static_cast<void>(scaler_->step(*optimizer_)) : static_cast<void>(optimizer_->step());
    }
    if (scaler_) scaler_->update();
    optimizer_->zero_grad();
  }
  double step_ms() {
    return milliseconds_a_step(compute_.device, kSteps, [this] { train(); });
  }
  DeviceWork work() {
    return profile(compute_.device, kProfiled, [this] { train(); });
  }

 private:
  Context& context_;
  imagenet::Compute compute_;
  std::shared_ptr<imagenet::ResNet> model_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::optional<GradScaler> scaler_;
  std::optional<DistributedOptimizer> distributed_;
  at::Tensor images_, labels_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

imagenet::Options options_of(int argc, char** argv) {
  imagenet::Options options;
  options.device = imagenet::DeviceKind::cuda;
  options.classes = 1000;
  options.lr = 0.01;
  options.batch = argc > 1 ? std::atoi(argv[1]) : 256;
  const std::string amp = argc > 2 ? argv[2] : "bf16";
  options.amp = amp == "fp16" ? imagenet::Amp::fp16 : amp == "off" ? imagenet::Amp::off : imagenet::Amp::bf16;
  return options;
}

// Of a step without kolo over one with it.
void print_ratios(Way way, int batch, const char* amp, std::vector<double> ratios) {
  std::sort(ratios.begin(), ratios.end());
  std::printf(
      "{\"what\": \"of_alone\", \"variant\": \"%s\", \"batch\": %d, \"amp\": \"%s\", \"median\": %.4f, \"least\": "
      "%.4f, "
      "\"most\": %.4f}\n",
      kNames[way], batch, amp, ratios[ratios.size() / 2], ratios.front(), ratios.back());
}

void run(const imagenet::Options& options, const char* amp, int turns) {
  const auto context = Context::create();
  Training training(*context, options);
  std::vector<double> times[kWays], ratios[kWays];
  for (int turn = 0; turn < turns; ++turn) {
    for (std::size_t i = 0; i < kWays; ++i) {
      const auto way = static_cast<Way>(turn % 2 == 0 ? i : kWays - 1 - i);
      training.go(way);
      times[way].push_back(training.step_ms());
    }
    for (const Way way : {kolo, packing}) ratios[way].push_back(times[without].back() / times[way].back());
  }
  for (const Way way : {without, kolo, packing}) {  // last, because the profiler slows all launches from then on
    training.go(way);
    std::printf(
        "{\"what\": \"overhead\", \"variant\": \"%s\", \"batch\": %d, \"amp\": \"%s\", \"step_ms\": %.3f, %s}\n",
        kNames[way], options.batch, amp, median(times[way]), json_of(training.work()).c_str());
  }
  for (const Way way : {kolo, packing}) print_ratios(way, options.batch, amp, ratios[way]);
}

}  // namespace
}  // namespace kolo::bench

int main(int argc, char** argv) {
  try {
    imagenet::keep_freed_memory();
    kolo::bench::run(kolo::bench::options_of(argc, argv), argc > 2 ? argv[2] : "bf16",
                     argc > 3 ? std::atoi(argv[3]) : 9);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_overhead: %s\n", error.what());
    return 1;
  }
}
