// kolo's optimizers on devices: the bits of the CPU, the results of torch, one launch for each group, and loss scaling.
#include <gtest/gtest.h>

#include <stdexcept>

#include "kolo/torch/fused_optimizers.h"
#include "kolo/torch/grad_scaler.h"
#include "multirank/torch_device/fused_trainee.h"

namespace kolo::test {
namespace {

constexpr int kSteps = 5;

template <class Optimizer, class Groups>
Tensors train(Place& place) {
  const OddParameters parameters(place.device);
  OddTraining training(place, parameters.optimizer<Optimizer, Groups>(), parameters);
  for (int step = 0; step < kSteps; ++step) training.step(step);
  return parameters.values();
}

// Changes from kolo's optimizer to torch's in the middle of the training, and back.
template <class Optimizer, class Groups>
Tensors change_horses(Place& place) {
  using Torch = typename Groups::Torch;
  const OddParameters parameters(place.device);
  const auto first = parameters.optimizer<Optimizer, Groups>();
  const auto second = parameters.optimizer<Torch, Groups>();
  const auto third = parameters.optimizer<Optimizer, Groups>();
  {
    OddTraining training(place, first, parameters);
    for (int step = 0; step < 3; ++step) training.step(step);
  }
  hand_over(*second, *first, place.device);
  OddTraining(place, second, parameters).step(3);
  hand_over(*third, *second, place.device);
  OddTraining(place, third, parameters).step(4);
  return parameters.values();
}

bool is_last(const Context& context) { return context.rank() == context.size() - 1; }

// Training with a loss scale, without unscale_(): the steps unscale.
template <class Optimizer, class Groups>
struct ScaledTraining {
  explicit ScaledTraining(Place& of, std::int64_t growth_interval = 2)
      : place(of),
        parameters(of.device),
        training(of, parameters.template optimizer<Optimizer, Groups>(), parameters),
        scaler(of.context, {.init_scale = 48, .growth_interval = growth_interval}) {}
  // With `overflows`, the loss of the last rank is infinite.
  void backward(int step, bool overflows = false) {
    training.distributed().zero_grad();
    at::Tensor loss = parameters.loss(static_cast<std::uint64_t>(10 * step + place.context.rank()));
    if (overflows && is_last(place.context)) loss = loss.mul(INFINITY);
    scaler.scale(loss).backward();
  }
  Place& place;
  OddParameters parameters;
  OddTraining training;
  GradScaler scaler;
};

template <class Optimizer, class Groups>
Tensors train_scaled(Place& place) {
  ScaledTraining<Optimizer, Groups> scaled(place);
  for (int step = 0; step < kSteps; ++step) {
    const bool overflow = step % 2 == 1;
    scaled.backward(step, overflow);
    EXPECT_EQ(scaled.scaler.step(scaled.training.distributed()), !overflow)
        << "rank " << place.context.rank() << ", step " << step;
    scaled.scaler.update();
  }
  return scaled.parameters.values();
}

// The same with step_async(): the CPU learns of an overflow when it needs the next scale. Also in the first step. On
// the CPU, step_async() is step().
template <class Optimizer, class Groups>
Tensors train_ahead(Place& place) {
  ScaledTraining<Optimizer, Groups> scaled(place);
  std::vector<float> scales;
  for (int step = 0; step < kSteps + 2; ++step) {
    scaled.backward(step, step % 3 == 0);
    scaled.scaler.step_async(scaled.training.distributed());
    scaled.scaler.update();
    if (step % 2 == 0) scales.push_back(static_cast<float>(scaled.scaler.state().scale));
  }
  EXPECT_EQ(scales, (std::vector<float>{24, 48, 24, 24}));
  return scaled.parameters.values();
}

// A rank fails after its gradients are reduced, while the others check whether the gradients are finite.
Tensors fail_before_the_vote(Place& place) {
  ScaledTraining<FusedSGD, SgdGroups> scaled(place, 2000);
  const auto step = [&](int number, bool fails) {
    scaled.backward(number);
    scaled.training.distributed().synchronize();
    if (fails) throw std::runtime_error("no more");
    scaled.scaler.step_async(scaled.training.distributed());
    scaled.scaler.update();
  };
  place.context.run([&] { step(0, false); });
  if (is_last(place.context)) {
    EXPECT_THROW(place.context.run([&] { step(1, true); }), std::runtime_error);
  } else {
    EXPECT_THROW(place.context.run([&] { step(1, false); }), PeerFailedError);
  }
  place.context.run([&] { step(2, false); });
  EXPECT_EQ(scaled.scaler.state().good_steps, 2);
  return scaled.parameters.values();
}

struct Case {
  const char* name;
  const char* kernel;
  TorchProgram train;
  TorchProgram by_torch;
  TorchProgram change_horses;
  TorchProgram train_scaled;
  TorchProgram train_ahead;
};
template <class Optimizer, class Groups>
Case make_case(const char* name, const char* kernel) {
  return {name,
          kernel,
          train<Optimizer, Groups>,
          train<typename Groups::Torch, Groups>,
          change_horses<Optimizer, Groups>,
          train_scaled<Optimizer, Groups>,
          train_ahead<Optimizer, Groups>};
}

class FusedUpdate : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, FusedUpdate,
                         testing::Values(make_case<FusedSGD, SgdGroups>("Sgd", "kolo_sgd"),
                                         make_case<FusedSGD, PlainSgdGroups>("PlainSgd", "kolo_sgd"),
                                         make_case<FusedAdamW, AdamwGroups>("Adamw", "kolo_adamw")),
                         [](const auto& one) { return std::string(one.param.name); });

void expect_near(const std::vector<Tensors>& found, const std::vector<Tensors>& wanted, double tolerance,
                 const std::string& when) {
  for (std::size_t rank = 0; rank < wanted.size(); ++rank) {
    ASSERT_EQ(found[rank].size(), wanted[rank].size());
    for (std::size_t i = 0; i < wanted[rank].size(); ++i) {
      const bool same = tolerance == 0 ? found[rank][i].equal(wanted[rank][i])
                                       : found[rank][i].allclose(wanted[rank][i], tolerance, tolerance);
      EXPECT_TRUE(same) << when << ", rank " << rank << ", tensor " << i;
    }
  }
}

// On two ranks with devices, in every order that the devices allow.
void expect_bits(const TorchProgram& program, const std::vector<Tensors>& wanted) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    expect_near(run_on_devices({.hosts = one_host(2), .seed = seed}, program), wanted, 0,
                "seed " + std::to_string(seed));
  }
}

TEST_P(FusedUpdate, OnCpuEqualsTorchUpToRounding) {
  for (const int ranks : {2, 4}) {
    expect_near(run_on_cpus(ranks, GetParam().train), run_on_cpus(ranks, GetParam().by_torch), 1e-5, "on the CPU");
  }
}

TEST_P(FusedUpdate, OnDevicesHasBitsOfCpu) { expect_bits(GetParam().train, run_on_cpus(2, GetParam().train)); }

TEST_P(FusedUpdate, CheckpointsLoadIntoTorchAndBack) {
  const auto wanted = run_on_cpus(2, GetParam().change_horses);
  expect_near(wanted, run_on_cpus(2, GetParam().by_torch), 1e-5, "on the CPU");
  expect_bits(GetParam().change_horses, wanted);
}

TEST_P(FusedUpdate, WithLossScaleHasBitsOfCpu) {
  expect_bits(GetParam().train_scaled, run_on_cpus(2, GetParam().train_scaled));
}

TEST_P(FusedUpdate, WithStepAsyncAndOverflowsHasBitsOfCpu) {
  const auto wanted = run_on_cpus(2, GetParam().train_ahead);
  expect_bits(GetParam().train_ahead, wanted);
  expect_near(run_on_devices({.hosts = one_host(1)}, GetParam().train_ahead), run_on_cpus(1, GetParam().train_ahead), 0,
              "alone");
  auto options = DeviceWorld::Options{.hosts = one_host(2)};
  options.config.device_reduction = DeviceReduction::host;
  expect_near(run_on_devices(options, GetParam().train_ahead), wanted, 0, "through the hosts");
}

TEST(FusedUpdate, FailureBeforeOverflowCheckReachesAllRanks) {
  expect_bits(fail_before_the_vote, run_on_cpus(2, fail_before_the_vote));
}

// The number of launches of each kernel on the devices of two ranks.
struct Launches {
  int updates = 0;
  int searches = 0;
  int packs = 0;
};
Launches launches_of(const TorchProgram& program, const char* kernel) {
  DeviceWorld world({.hosts = one_host(2)});
  run_on_devices(world, program);
  const auto count = [&](std::string_view name) { return world.device().launches(name); };
  return {count(kernel), count("kolo_find_nonfinite"), count("kolo_pack")};
}

// A launch updates its weights at the same time. Weights that share memory therefore take one launch each, in order.
Tensors one_memory_for_several(Place& place) {
  const at::Tensor whole = at::ones({8}).to(place.device);
  const at::Tensor first = whole.narrow(0, 0, 4).requires_grad_();
  const at::Tensor both = whole.narrow(0, 2, 4).detach().requires_grad_();
  const at::Tensor apart = whole.narrow(0, 6, 2).detach().requires_grad_();
  const NamedTensors named{{"first", first}, {"both", both}, {"apart", apart}};
  auto sgd = std::make_shared<FusedSGD>(std::vector<at::Tensor>{first, both, apart}, torch::optim::SGDOptions(0.5));
  DistributedOptimizer optimizer(place.context, sgd, named);
  (first.sum() + 2 * both.sum() + 4 * apart.sum()).backward();
  optimizer.step();
  return {whole.cpu()};
}

TEST(FusedUpdate, WeightsThatShareMemoryTakeOneLaunchEach) {
  EXPECT_EQ(launches_of(one_memory_for_several, "kolo_sgd").updates, 2 * 3);
  expect_bits(one_memory_for_several, run_on_cpus(2, one_memory_for_several));
}

// Weights that share memory and have had different numbers of steps.
Tensors one_memory_and_other_numbers(Place& place) {
  const at::Tensor whole = at::linspace(1, 2, 12).to(place.device);
  const at::Tensor first = whole.narrow(0, 0, 8).detach().requires_grad_();
  const at::Tensor second = whole.narrow(0, 4, 8).detach().requires_grad_();
  const auto options = torch::optim::AdamWOptions(0.1).weight_decay(0.5);
  auto adamw = std::make_shared<FusedAdamW>(std::vector<at::Tensor>{first, second}, options);
  DistributedOptimizer optimizer(place.context, adamw, NamedTensors{{"first", first}, {"second", second}});
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    at::Tensor loss = first.pow(2).sum();
    if (step != 1) loss = loss + (second * second * second).sum();
    loss.backward();
    optimizer.step();
  }
  return {whole.cpu()};
}

TEST(FusedUpdate, WeightsThatShareMemoryAreUpdatedInOrder) {
  expect_bits(one_memory_and_other_numbers, run_on_cpus(2, one_memory_and_other_numbers));
}

// The new DistributedOptimizer is made before the old one is destroyed.
Tensors replace_the_distributed_optimizer(Place& place) {
  const OddParameters parameters(place.device);
  const auto sgd = parameters.optimizer<FusedSGD, SgdGroups>();
  auto training = std::make_unique<OddTraining>(place, sgd, parameters);
  training->step(0);
  training = std::make_unique<OddTraining>(place, sgd, parameters);
  for (int step = 1; step < kSteps; ++step) training->step(step);
  return parameters.values();
}

// A second DistributedOptimizer is made and destroyed during the training.
Tensors keep_the_distributed_optimizer(Place& place) {
  const OddParameters parameters(place.device);
  const auto sgd = parameters.optimizer<FusedSGD, SgdGroups>();
  OddTraining training(place, sgd, parameters);
  training.step(0);
  { const OddTraining another(place, sgd, parameters); }
  for (int step = 1; step < kSteps; ++step) training.step(step);
  return parameters.values();
}

TEST(FusedUpdate, KernelsAreUsedAfterOptimizerIsWrappedAgain) {
  const TorchProgram plain = train<FusedSGD, SgdGroups>;
  for (const auto& program : {replace_the_distributed_optimizer, keep_the_distributed_optimizer}) {
    EXPECT_EQ(launches_of(program, "kolo_sgd").updates, launches_of(plain, "kolo_sgd").updates);
    expect_bits(program, run_on_cpus(2, plain));
  }
}

// The device decides whether a launched step has an effect.
TEST_P(FusedUpdate, StepAsyncLaunchesEveryStep) {
  const Launches found = launches_of(GetParam().train_ahead, GetParam().kernel);
  EXPECT_GE(found.updates, 2 * 2 * (kSteps + 2));
  EXPECT_EQ(found.searches, 2 * 2 * (kSteps + 2));
}

// Two groups, several buckets. Tensor 2 is one step behind the others of its group, so its group takes two launches:
// with SGD in the step where momenta begin, with AdamW in all later steps.
TEST_P(FusedUpdate, EachGroupIsOneLaunch) {
  const Launches found = launches_of(GetParam().train, GetParam().kernel);
  const std::string_view name = GetParam().name;
  const int behind = name == "Sgd" ? 1 : name == "Adamw" ? kSteps - 1 : 0;
  EXPECT_EQ(found.updates, 2 * (2 * kSteps + behind));
  EXPECT_GT(found.packs, 2 * 2 * kSteps) << "there are more buckets than groups";
  EXPECT_EQ(found.searches, 0);
}

// Five steps, of which two are skipped.
TEST_P(FusedUpdate, ScaledStepHasOneMoreLaunchForEachGroup) {
  const Launches found = launches_of(GetParam().train_scaled, GetParam().kernel);
  EXPECT_EQ(found.updates, 2 * 2 * 3);
  EXPECT_EQ(found.searches, 2 * 2 * kSteps);
}

// kolo's kernels do not support other types, nor an optimizer that is no longer wrapped.
template <class Optimizer, class Groups>
Tensors mixed_types(Place& place) {
  const OddParameters parameters(place.device);
  at::Tensor wide = numbers(77, {9}).to(at::kDouble).to(place.device).requires_grad_();
  const auto optimizer = parameters.optimizer<Optimizer, Groups>();
  optimizer->param_groups()[1].params().push_back(wide);
  NamedTensors named = parameters.named();
  named.emplace_back("wide", wide);
  DistributedOptimizer distributed(place.context, optimizer, named, small_buckets_of_tensors());
  const auto backward = [&](int step) {
    distributed.zero_grad();
    const at::Tensor loss = parameters.loss(static_cast<std::uint64_t>(step));
    (loss.to(at::kDouble) + wide.pow(2).sum()).backward();
  };
  for (int step = 0; step < 2; ++step) {
    backward(step);
    distributed.step();
  }
  backward(2);
  distributed.synchronize();
  distributed.detach();
  optimizer->step();
  Tensors values = parameters.values();
  values.push_back(wide.detach().cpu().clone());
  return values;
}

TEST(FusedUpdate, OtherTypesAndUnwrappedOptimizerAreUpdatedByTorch) {
  const std::vector<std::pair<TorchProgram, const char*>> programs{
      {mixed_types<FusedSGD, SgdGroups>, "kolo_sgd"}, {mixed_types<FusedAdamW, AdamwGroups>, "kolo_adamw"}};
  for (const auto& [program, kernel] : programs) {
    expect_near(run_on_devices({.hosts = one_host(2)}, program), run_on_cpus(2, program), 1e-6, kernel);
    EXPECT_EQ(launches_of(program, kernel).updates, 2 * 2 * 2) << "two groups, two steps, two ranks";
  }
}

}  // namespace
}  // namespace kolo::test
