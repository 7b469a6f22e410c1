// Training on the GPU ends where training on the CPU ends: one rank, and several that share the GPU over NCCL.
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include "gpu/torch_gpu.h"
#include "gpu/training_context.h"
#include "training/equivalence.h"

namespace kolo::test {
namespace {

struct Case {
  Rule rule;
  at::ScalarType type;
  double tolerance;
};

// fp32 as exact as it gets: no TF32.
void exact_arithmetic() {
  at::globalContext().setAllowTF32CuDNN(false);
  at::globalContext().setAllowTF32CuBLAS(false);
}

// train_together(), on the GPU.
History train_on(const c10::Device& device, Context& context, const Case& c) {
  return context.run([&] {
    auto model = make_model(c.type);
    model->to(device);
    if (context.rank() != 0) {
      const torch::NoGradGuard no_grad;
      for (auto& parameter : model->parameters()) parameter.fill_(context.rank());
    }
    broadcast_parameters(context, *model);
    DistributedOptimizer optimizer(context, make_optimizer(c.rule, model->parameters()), model->named_parameters(),
                                   packed());
    History history;
    for (int step = 0; step < kSteps; ++step) {
      auto [input, target] = batch_of(step, context.rank(), c.type);
      optimizer.zero_grad();
      loss_of(model, input.to(device), target.to(device)).backward();
      optimizer.step();
      history.push_back(copies(model));
      for (auto& tensor : history.back()) tensor = tensor.cpu();
    }
    return history;
  });
}

class GpuTraining : public testing::TestWithParam<Case> {};

TEST_P(GpuTraining, EndsWhereTheCpuEnds) {
  const auto context = training_context();
  const c10::Device device = training_device(*context);
  exact_arithmetic();
  const History history = train_on(device, *context, GetParam());
  expect_close(history, train_alone(GetParam().rule, GetParam().type, context->size()), GetParam().tolerance);
  for (std::size_t i = 0; i < history.back().size(); ++i) {
    const at::Tensor& mine = history.back()[i];
    const at::Tensor first = broadcast_(*context, mine.clone(), 0, "weights/" + std::to_string(i));
    EXPECT_TRUE(bitwise_equal(first, mine)) << "tensor " << i << " of rank 0 and of rank " << context->rank();
  }
}

std::string name_of_case(const testing::TestParamInfo<Case>& it) {
  const std::string rules[] = {"sgd", "fused_sgd", "adamw", "fused_adamw"};
  return rules[static_cast<int>(it.param.rule)] + (it.param.type == torch::kFloat64 ? "_f64" : "_f32");
}

INSTANTIATE_TEST_SUITE_P(All, GpuTraining,
                         testing::Values(Case{Rule::sgd, torch::kFloat64, 1e-9}, Case{Rule::sgd, torch::kFloat32, 1e-4},
                                         Case{Rule::fused_sgd, torch::kFloat32, 1e-4},
                                         Case{Rule::adamw, torch::kFloat64, 1e-9},
                                         Case{Rule::adamw, torch::kFloat32, 1e-2},
                                         Case{Rule::fused_adamw, torch::kFloat32, 1e-2}),
                         name_of_case);

}  // namespace
}  // namespace kolo::test
