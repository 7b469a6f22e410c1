// What carries gradients of GPUs between hosts, counted: an MPI that takes their memory is given it, any other is not.
#include <gtest/gtest.h>

#include "gpu/torch_gpu.h"
#include "gpu/training_context.h"
#include "training/equivalence.h"
#include "transport/mpi_device_memory.h"

namespace kolo::test {
namespace {

TEST(GpuCrossing, GoesThroughTheHostOnlyWhereMpiTakesNoMemoryOfDevices) {
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
  const auto counters = context->counters();
  const bool aware =
      config.network == Network::mpi && config.cuda_aware_mpi && transport::mpi_takes_device_memory().value_or(false);
  const bool on_device = device.is_cuda() && mixed;
  EXPECT_EQ(counters.at("bytes_between_devices") > 0, on_device && aware);
  EXPECT_EQ(counters.at("bytes_carried") > 0, on_device && !aware);
}

}  // namespace
}  // namespace kolo::test
