// Loss scaling with gradients that are reduced on devices: the bits of the CPU, with skipped steps.
#include "kolo/torch/grad_scaler.h"

#include <torch/optim/sgd.h>

#include <optional>

#include "kolo/torch/fused_optimizers.h"
#include "multirank/torch_device/torch_world.h"

namespace kolo::test {
namespace {

constexpr int kSteps = 5;
bool overflows(int step) { return step == 1 || step == 3; }

// In some steps the loss of the last rank is infinite. The program clips the unscaled gradients.
Tensors scaled_training(Place& place) {
  const Net net(place.device);
  auto sgd = std::make_shared<torch::optim::SGD>(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  DistributedOptimizer optimizer(place.context, sgd, net.named(), small_buckets_of_tensors());
  GradScaler scaler(place.context, {.init_scale = 64, .growth_interval = 2});
  const bool last = place.context.rank() == place.context.size() - 1;
  std::vector<float> scales;
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    at::Tensor loss = net.loss(static_cast<std::uint64_t>(10 * step + place.context.rank()));
    if (overflows(step) && last) loss = loss.mul(INFINITY);
    scaler.scale(loss).backward();
    scaler.unscale_(optimizer);
    for (const auto& parameter : net.parameters()) parameter.mutable_grad().clamp_(-0.05, 0.05);
    EXPECT_EQ(scaler.step(optimizer), !overflows(step)) << "rank " << place.context.rank() << ", step " << step;
    scaler.update();
    scales.push_back(static_cast<float>(scaler.state().scale));
  }
  EXPECT_EQ(scales, (std::vector<float>{64, 32, 32, 16, 16}));
  return net.values();
}

TEST(GradScalerOnDevices, WithOverflowsHasBitsOfCpu) {
  const auto wanted = run_on_cpus(2, scaled_training);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto found = run_on_devices({.hosts = one_host(2), .seed = seed}, scaled_training);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      for (std::size_t i = 0; i < wanted[rank].size(); ++i) {
        EXPECT_TRUE(found[rank][i].equal(wanted[rank][i])) << "seed " << seed << " rank " << rank << " tensor " << i;
      }
    }
  }
}

// One scaler and several optimizers, one after the other. On rank 0 the second may have the address of the first. On
// rank 1, which keeps the first, the second has another address.
Tensors an_optimizer_a_phase(Place& place) {
  const at::Tensor weight = at::ones({4}).to(place.device).requires_grad_();
  GradScaler scaler(place.context, {.init_scale = 8});
  std::shared_ptr<torch::optim::Optimizer> held;
  for (int phase = 0; phase < 3; ++phase) {
    const auto sgd = std::make_shared<FusedSGD>(std::vector<at::Tensor>{weight}, torch::optim::SGDOptions(0.1));
    if (place.context.rank() == 1 && phase == 0) held = sgd;
    DistributedOptimizer optimizer(place.context, sgd, NamedTensors{{"weight", weight}});
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      scaler.scale((weight * 0.125).sum()).backward();
      scaler.step_async(optimizer);
      scaler.update();
    }
    static_cast<void>(scaler.state());
  }
  return {weight.detach().cpu()};
}

TEST(GradScalerOnDevices, NewOptimizerAtAddressOfOldOneIsDistinguished) {
  DeviceWorld::Options options{.hosts = one_host(2)};
  options.config.timeout = std::chrono::seconds(20);
  const auto found = run_on_devices(options, an_optimizer_a_phase);
  for (const auto& rank : found) EXPECT_TRUE(rank.front().allclose(at::full({4}, 1 - 6 * 0.0125)));
}

// If an optimizer is wrapped again while all its device parameters are frozen, it has no kernels, but its earlier
// overflow flag. `spare` never has a gradient; without it, the optimizer would have no trainable parameter.
Tensors freeze_the_body(Place& place) {
  const at::Tensor head = at::ones({4}).to(place.device).requires_grad_();
  const at::Tensor body = at::ones({4}).to(place.device).requires_grad_();
  const auto of_head = std::make_shared<FusedSGD>(std::vector<at::Tensor>{head}, torch::optim::SGDOptions(0.1));
  const at::Tensor spare = at::ones({4}).requires_grad_();
  const auto of_body = std::make_shared<FusedSGD>(std::vector<at::Tensor>{body, spare}, torch::optim::SGDOptions(0.1));
  GradScaler scaler(place.context, {.init_scale = 8});
  for (const bool frozen : {false, true}) {
    body.requires_grad_(!frozen);
    DistributedOptimizer one(place.context, of_head, NamedTensors{{"head", head}});
    DistributedOptimizer other(place.context, of_body, NamedTensors{{"body", body}, {"spare", spare}});
    for (int step = 0; step < 2; ++step) {
      one.zero_grad();
      other.zero_grad();
      scaler.scale((head * body).sum()).backward();
      scaler.step_async(one);
      scaler.step_async(other);
      scaler.update();
    }
  }
  static_cast<void>(scaler.state());
  return {head.detach().cpu(), body.detach().cpu()};
}

TEST(GradScalerOnDevices, OptimizerWithoutTrainableDeviceParameterEqualsCpu) {
  const auto wanted = run_on_cpus(2, freeze_the_body);
  const auto found = run_on_devices({.hosts = one_host(2)}, freeze_the_body);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(found[rank][i].equal(wanted[rank][i]));
  }
}

// The kernels are destroyed with the Context. The wrapped optimizer uses those of LibTorch, and the scaler throws.
TEST(GradScalerOnDevices, StepAfterContextIsUsageErrorAndWrappedOptimizerWorks) {
  DeviceWorld world({.hosts = one_host(2)});
  world.nccl().expect_lost_buffers(2);  // the optimizers'
  TorchDevice torch_device(world.device());
  struct Rank {
    at::Tensor weight;
    std::shared_ptr<FusedSGD> sgd;
    std::optional<DistributedOptimizer> optimizer;
    std::optional<GradScaler> scaler;
  };
  std::vector<Rank> ranks(2);
  world.run([&](Context& context) {
    const Place place(context, torch_device);
    Rank& rank = ranks[static_cast<std::size_t>(context.rank())];
    rank.weight = at::ones({4}).to(place.device).requires_grad_();
    rank.sgd = std::make_shared<FusedSGD>(std::vector<at::Tensor>{rank.weight}, torch::optim::SGDOptions(0.125));
    rank.optimizer.emplace(context, rank.sgd, NamedTensors{{"weight", rank.weight}});
    rank.scaler.emplace(context);
    rank.weight.sum().backward();
    rank.optimizer->step();
    context.wait_for_devices();
  });
  for (Rank& rank : ranks) {
    rank.weight.mutable_grad() = at::ones({4}).to(rank.weight.device());
    EXPECT_THROW(rank.scaler->step(*rank.sgd), UsageError);
    rank.weight.mutable_grad() = at::ones({4}).to(rank.weight.device());
    rank.sgd->step();
    EXPECT_TRUE(rank.weight.cpu().eq(0.75).all().item<bool>());
    EXPECT_THROW(rank.optimizer->step(), UsageError);
  }
}

// Pending overflow flags and steps are destroyed without harm.
TEST(GradScalerOnDevices, CallsAfterContextAreUsageErrorExceptLoad) {
  DeviceWorld world({.hosts = one_host(2)});
  world.nccl().expect_lost_buffers(2);  // the votes'
  TorchDevice torch_device(world.device());
  std::vector<std::optional<GradScaler>> scalers(2);
  world.run([&](Context& context) {
    const Place place(context, torch_device);
    const at::Tensor weight = at::ones({4}).to(place.device).requires_grad_();
    const auto sgd = std::make_shared<FusedSGD>(std::vector<at::Tensor>{weight}, torch::optim::SGDOptions(0.1));
    DistributedOptimizer optimizer(context, sgd, NamedTensors{{"weight", weight}});
    auto& scaler = scalers[static_cast<std::size_t>(context.rank())];
    scaler.emplace(context, GradScalerOptions{.init_scale = 8});
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      scaler->scale((weight * 0.125).sum()).backward();
      scaler->step_async(optimizer);
      scaler->update();
    }
  });
  for (auto& scaler : scalers) {
    EXPECT_THROW(static_cast<void>(scaler->state()), UsageError);
    EXPECT_THROW(static_cast<void>(scaler->scale(at::ones({}))), UsageError);
    scaler->load({4, 0});
    EXPECT_EQ(scaler->state().scale, 4);
    const at::Tensor weight = at::ones({1}).requires_grad_();
    weight.mutable_grad() = at::ones({1});
    torch::optim::SGD alone({weight}, torch::optim::SGDOptions(0.1));
    EXPECT_THROW(scaler->step(alone), UsageError);
    scaler.reset();
  }
}

}  // namespace
}  // namespace kolo::test
