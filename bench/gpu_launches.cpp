// What kolo adds to a training step of one GPU, counted: kernels, copies and fills that the device runs, and the host's
// time, for parameters of ResNet-50's sizes, with kolo and without. gpu_launches; JSON lines on stdout.
#include <ATen/Functions.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "gpu_profile.h"
#include "kolo/torch/cuda.h"
#include "kolo/torch/torch.h"
#include "resnet50_gradients.h"

namespace kolo::bench {
namespace {

constexpr int kWarmUp = 5, kSteps = 20, kCounted = 4;

// A loss whose gradients cost next to nothing, so that what is counted is mostly the update.
class Model {
 public:
  Model(Context& context, const c10::Device& device, bool with_kolo) {
    const auto options = at::TensorOptions().device(device).dtype(at::kFloat);
    NamedTensors named;
    for (const std::int64_t count : resnet50_elements()) {
      weights_.push_back(torch::zeros({count}, options.requires_grad(true)));
      named.emplace_back("w" + std::to_string(named.size()), weights_.back());
    }
    const auto rule = torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(1e-4);
    sgd_ = std::make_shared<FusedSGD>(weights_, rule);
    if (with_kolo) distributed_.emplace(context, sgd_, named);
  }
  void step() {
    if (distributed_) {
      distributed_->zero_grad();
    } else {
      sgd_->zero_grad();
    }
    std::vector<at::Tensor> sums;
    for (const at::Tensor& weight : weights_) sums.push_back(weight.sum());
    at::stack(sums).sum().backward();
    if (distributed_) {
      distributed_->step();
    } else {
      sgd_->step();
    }
  }

 private:
  std::vector<at::Tensor> weights_;
  std::shared_ptr<FusedSGD> sgd_;
  std::optional<DistributedOptimizer> distributed_;
};

void print(const char* way, const DeviceWork& work, double step_ms) {
  std::printf("{\"what\": \"launches a step\", \"variant\": \"%s\", %s, \"step_ms\": %.3f}\n", way,
              json_of(work).c_str(), step_ms);
  std::fflush(stdout);
}

void run() {
  const auto context = Context::create();
  const c10::Device device = use_cuda(*context);
  Model alone(*context, device, false), with_kolo(*context, device, true);
  for (int step = 0; step < kWarmUp; ++step) {
    alone.step();
    with_kolo.step();
  }
  std::vector<double> times[2];
  for (int round = 0; round < 5; ++round) {
    times[0].push_back(milliseconds_a_step(device, kSteps, [&] { alone.step(); }));
    times[1].push_back(milliseconds_a_step(device, kSteps, [&] { with_kolo.step(); }));
  }
  for (auto& each : times) std::sort(each.begin(), each.end());
  print("without kolo", profile(device, kCounted, [&] { alone.step(); }), times[0][2]);
  print("kolo", profile(device, kCounted, [&] { with_kolo.step(); }), times[1][2]);
}

}  // namespace
}  // namespace kolo::bench

int main() {
  try {
    kolo::bench::run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_launches: %s\n", error.what());
    return 1;
  }
}
