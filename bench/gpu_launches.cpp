// What kolo adds to a training step of one GPU, counted: kernels, copies and fills that the device runs, and the host's
// time, for parameters of ResNet-50's sizes, with kolo and without. gpu_launches; JSON lines on stdout.
#include <ATen/Functions.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <kineto/ActivityType.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>

#include "kolo/torch/cuda.h"
#include "kolo/torch/torch.h"
#include "resnet50_gradients.h"

namespace kolo::bench {
namespace {

constexpr int kWarmUp = 5, kSteps = 20, kCounted = 4;

// A loss whose gradients cost next to nothing, so that what is counted is mostly the update.
class Model {
 public:
  Model(Context& context, const c10::Device& device, bool with_kolo) : device_(device) {
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
  void wait() const {
    const c10::impl::VirtualGuardImpl guard(device_.type());
    guard.synchronizeDevice(device_.index());
  }

 private:
  c10::Device device_;
  std::vector<at::Tensor> weights_;
  std::shared_ptr<FusedSGD> sgd_;
  std::optional<DistributedOptimizer> distributed_;
};

struct Counted {
  double kernels = 0, copies = 0, fills = 0;  // a step
  std::map<std::string, double> of_kolo;      // kernels by name
};

Counted count(Model& model) {
  using namespace torch::autograd::profiler;  // NOLINT: torch's names for a profiler of its own
  using torch::profiler::impl::ActivityType;
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  const std::set<ActivityType> activities{ActivityType::CPU, ActivityType::CUDA};
  prepareProfiler(config, activities);
  enableProfiler(config, activities);
  for (int step = 0; step < kCounted; ++step) model.step();
  model.wait();
  const auto result = disableProfiler();
  Counted counted;
  constexpr double kOne = 1.0 / kCounted;
  for (const KinetoEvent& event : result->events()) {
    const auto type = static_cast<libkineto::ActivityType>(event.activityType());
    if (type == libkineto::ActivityType::GPU_MEMCPY) counted.copies += kOne;
    if (type == libkineto::ActivityType::GPU_MEMSET) counted.fills += kOne;
    if (type != libkineto::ActivityType::CONCURRENT_KERNEL) continue;
    counted.kernels += kOne;
    if (event.name().find("kolo_") != std::string::npos) counted.of_kolo[event.name()] += kOne;
  }
  return counted;
}

// Of the host and the device together, each step behind the one before.
double milliseconds_a_step(Model& model) {
  model.wait();
  const auto begin = std::chrono::steady_clock::now();
  for (int step = 0; step < kSteps; ++step) model.step();
  model.wait();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() / kSteps;
}

void print(const char* way, const Counted& counted, double step_ms) {
  std::string kernels;
  for (const auto& [name, number] : counted.of_kolo) {
    kernels += (kernels.empty() ? "\"" : ", \"") + name + "\": " + std::to_string(number);
  }
  std::printf(
      "{\"what\": \"launches a step\", \"way\": \"%s\", \"kernels\": %.2f, \"copies\": %.2f, \"fills\": %.2f, "
      "\"step_ms\": %.3f, \"kolo_kernels\": {%s}}\n",
      way, counted.kernels, counted.copies, counted.fills, step_ms, kernels.c_str());
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
    times[0].push_back(milliseconds_a_step(alone));
    times[1].push_back(milliseconds_a_step(with_kolo));
  }
  for (auto& each : times) std::sort(each.begin(), each.end());
  print("without kolo", count(alone), times[0][2]);
  print("kolo", count(with_kolo), times[1][2]);
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
