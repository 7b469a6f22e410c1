// A device whose memory torch's caching allocator has taken, and does not use: kolo's buckets are had all the same.
#include <c10/core/CachingDeviceAllocator.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include "gpu/torch_gpu.h"
#include "gpu/training_context.h"
#include "kolo/spi/communicator.h"
#include "kolo/torch/torch.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kLeft = 32 << 20;  // bytes that nobody keeps: fewer than the bucket needs

// A weight w of a loss that is the sum of w * (rank + 1).
class Sum {
 public:
  Sum(Context& context, const c10::Device& device, std::int64_t elements)
      : context_(context),
        weight_(torch::zeros({elements}, at::TensorOptions().device(device).dtype(at::kFloat).requires_grad(true))) {}
  void backward() {
    weight_.mutable_grad().reset();
    (weight_ * static_cast<double>(context_.rank() + 1)).sum().backward();
  }
  void train() {
    DistributedOptions options;  // factors that a rank which is alone takes a bucket for, too
    options.prescale = 0.5;
    options.postscale = 2;
    DistributedOptimizer optimizer(
        context_, std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{weight_}, torch::optim::SGDOptions(1.0)),
        NamedTensors{{"w", weight_}}, options);
    backward();
    optimizer.step();
    const double mean = (context_.size() + 1) / 2.0;
    EXPECT_EQ(weight_.min().item<double>(), -mean);
    EXPECT_EQ(weight_.max().item<double>(), -mean);
  }

 private:
  Context& context_;
  at::Tensor weight_;
};

std::int64_t kept(const c10::Device& device) {
  return c10::getDeviceAllocator(device.type())->getDeviceStats(device.index()).reserved_bytes[0].current;
}

void keep_the_rest(const c10::Device& device) {
  const auto [free, all] = c10::getDeviceAllocator(device.type())->getMemoryInfo(device.index());
  (void)torch::empty({static_cast<std::int64_t>(free) - kLeft}, at::TensorOptions().device(device).dtype(at::kByte));
}

TEST(GpuMemory, WhatTorchKeepsIsGivenBack) {
  const auto context = training_context();
  const c10::Device device = training_device(*context);
  context->run([&] {
    Sum(*context, device, 1000).train();  // what is made once, also by NCCL
    Sum sum(*context, device, 2 * kLeft / 4);
    sum.backward();  // torch's own memory for it
    context->communicator().barrier(60s);
    // Where hosts reduce, nobody tells this rank that another one on the same device is short.
    const bool told = context->size() == 1 || context->config().device_reduction != DeviceReduction::host;
    const bool keeps = device.is_cuda() && context->rank() == 0 && told;
    if (keeps) keep_the_rest(device);
    const std::int64_t before = keeps ? kept(device) : 0;
    context->communicator().barrier(60s);
    sum.train();
    if (keeps) {
      EXPECT_LT(kept(device), before - kLeft);
      c10::getDeviceAllocator(device.type())->emptyCache();  // or no test after this one has memory
    }
  });
}

}  // namespace
}  // namespace kolo::test
