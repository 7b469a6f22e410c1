// Gradients of GPUs that go in two steps pass through memory of the host, counted.
#include <gtest/gtest.h>

#include "gpu/torch_gpu.h"
#include "gpu/training_context.h"
#include "training/equivalence.h"

namespace kolo::test {
namespace {

TEST(GpuCrossing, MixedReductionCarriesSharesThroughTheHost) {
  const auto context = training_context();
  const c10::Device device = training_device(*context);
  const Config& config = context->config();
  const bool mixed = config.device_reduction == DeviceReduction::mixed && context->placement().cross_size > 1;
  context->run([&] {
    auto model = make_model(at::kFloat);
    model->to(device);
    DistributedOptimizer optimizer(*context, make_optimizer(Rule::sgd, model->parameters()), model->named_parameters(),
                                   packed());
    for (int step = 0; step < 3; ++step) {
      auto [input, target] = batch_of(step, context->rank(), at::kFloat);
      optimizer.zero_grad();
      loss_of(model, input.to(device), target.to(device)).backward();
      optimizer.step();
    }
  });
  EXPECT_EQ(context->counters().at("bytes_carried") > 0, device.is_cuda() && mixed);
}

}  // namespace
}  // namespace kolo::test
