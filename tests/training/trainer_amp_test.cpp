// Autocast and loss scaling over ranks that are processes: they learn, and end with the same weights and scale.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include "kolo/torch/torch.h"
#include "model.h"
#include "training/equivalence.h"

namespace imagenet {
namespace {

// Byte for byte what rank 0 has, by MPI's own means.
bool as_on_rank_0(const at::Tensor& tensor) {
  const at::Tensor here = tensor.detach().contiguous();
  const at::Tensor there = here.clone();
  MPI_Bcast(there.mutable_data_ptr(), static_cast<int>(there.nbytes()), MPI_BYTE, 0, MPI_COMM_WORLD);
  return kolo::test::bitwise_equal(here, there);
}

struct Course {
  std::vector<double> losses;
  std::vector<double> scales;
  std::vector<int> skipped;
};

// The same four images of this rank again and again; in step `overflow` the last rank's loss is infinite.
Course train(kolo::Context& context, const Compute& compute, int steps, int overflow) {
  at::set_num_threads(1);
  at::manual_seed(5);
  ResNet model("resnet18", 5, /*zero_init_residual=*/true);
  use_channels_last(model);
  auto sgd = std::make_shared<kolo::FusedSGD>(model.parameters(), torch::optim::SGDOptions(0.02).momentum(0.9));
  kolo::DistributedOptimizer optimizer(context, sgd, model.named_parameters());
  kolo::GradScaler scaler(context, {.init_scale = 256});
  const auto rank = static_cast<std::uint64_t>(context.rank());
  const at::Tensor images = kolo::test::noise(9 + rank, {4, 3, 32, 32}, at::kFloat);
  const at::Tensor labels = (at::arange(4) + context.rank()).remainder(5);
  Course run;
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    at::Tensor loss = at::cross_entropy_loss(logits_of(compute, model, images), labels);
    run.losses.push_back(loss.item<double>());
    run.scales.push_back(scaler.state().scale);
    if (step == overflow && context.rank() == context.size() - 1) loss = loss * INFINITY;
    scaler.scale(loss).backward();
    if (!scaler.step(optimizer)) run.skipped.push_back(step);
    scaler.update();
  }
  for (const auto& parameter : model.named_parameters()) {
    EXPECT_TRUE(as_on_rank_0(parameter.value())) << parameter.key();
  }
  EXPECT_TRUE(as_on_rank_0(at::tensor(run.scales, at::kDouble)));
  return run;
}

class MixedPrecision : public testing::TestWithParam<at::ScalarType> {};

TEST_P(MixedPrecision, LossFallsAndWeightsAndScaleAreEqualOnAllRanks) {
  const auto context = kolo::Context::create();
  const Compute compute{at::kCPU, GetParam()};
  const Course run = train(*context, compute, 7, 2);
  EXPECT_EQ(run.skipped, std::vector<int>{2});
  EXPECT_EQ(run.scales.back(), 128);
  EXPECT_LT(run.losses.back(), 0.5 * run.losses.front());
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU)) << "the guard leaves things as they were";
}

INSTANTIATE_TEST_SUITE_P(Types, MixedPrecision, testing::Values(at::kBFloat16, at::kHalf));

TEST(Autocast, ComputesInItsTypeWithCurrentWeights) {
  const Compute compute{at::kCPU, at::kBFloat16};
  const at::Tensor weight = at::ones({2, 2}).set_requires_grad(true), x = at::ones({2, 2});
  const auto product = [&] {
    const Autocast autocast(compute);
    return at::mm(x, weight);
  };
  EXPECT_EQ(product().scalar_type(), at::kBFloat16);
  {
    const at::NoGradGuard no_grad;
    weight.fill_(3);
  }
  EXPECT_EQ(product()[0][0].item<float>(), 6) << "a cast of the old weight was used";
  const Autocast none(Compute{});
  EXPECT_EQ(at::mm(x, weight).scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace imagenet
