// Each wait and record of the binding is necessary: without it the simulated device finds a race, in every order in
// which the device runs its work.
#include <gmock/gmock.h>

#include "kolo/spi/communicator.h"
#include "kolo/torch/fused_optimizers.h"
#include "multirank/device/mutant.h"
#include "multirank/torch_device/trainee.h"

namespace kolo::test {
namespace {

struct Omission {
  const char* name;
  std::optional<Wait> wait{};  // a wait of kolo's
  bool records = false;        // gradients are not recorded for the stream that is behind their last reader
  bool streams = false;        // the default stream is taken for the current one
  bool fused = false;          // kolo's kernel updates the weights
  bool misplaced = false;      // and is launched in the default stream
};

// Backward in one stream, updates in another.
template <class Optimizer>
struct Rank {
  Rank(Place& place, Mutant& mutant) : trainee(place), main(place.main()), backward(place.side()), user(place.side()) {
    mutant.set_role(backward.handle(), Role::backward);
    mutant.set_role(user.handle(), Role::user);
    user.wait_for(main);
  }
  void step(int number, bool contributes) {
    backward.wait_for(user);
    if (contributes) {
      const auto guard = backward.enter();
      trainee.loss(number).backward();
    }
    user.wait_for(backward);
    const auto guard = user.enter();
    trainee.optimizer.step();
    trainee.optimizer.zero_grad();
  }
  // With the default stream, to which mutants move what belongs to the others.
  void synchronize() const {
    main.synchronize();
    backward.synchronize();
    user.synchronize();
  }

  TraineeOf<Optimizer> trainee;
  UserStream main;
  UserStream backward;
  UserStream user;
};

// Three steps on two ranks; in the second step rank 1 has no gradient to wait for. Polls by the CPU order nothing in
// these steps, because that would hide a missing wait. The step before, which allocates memory, omits nothing.
template <class Optimizer>
void train(Place& place, SimulatedDevice& device, TorchDevice& torch_device, Mutant& mutant, const Omission& omission) {
  Rank<Optimizer> it(place, mutant);
  it.step(0, true);
  it.synchronize();
  place.context.communicator().barrier(std::chrono::seconds(20));
  if (place.context.rank() == 0) {
    device.set_polls_order(false);
    if (omission.wait) mutant.leave_out(*omission.wait);
    if (omission.records) torch_device.ignore_records();
    if (omission.misplaced) mutant.misplace_launches(Role::user);
    if (omission.streams) torch_device.hand_out_default_streams();
  }
  place.context.communicator().barrier(std::chrono::seconds(20));
  for (int number = 1; number <= 3; ++number) it.step(number, number != 2 || place.context.rank() != 1);
  it.synchronize();
}

struct Found {
  std::vector<Violation> violations;
  int left_out = 0;
  int misplaced = 0;
};

Found found_with(const Omission& omission, DeviceReduction reduction, std::uint64_t seed) {
  Mutant mutant;
  auto config = quick();
  config.device_reduction = reduction;
  DeviceWorld world({.hosts = one_host(2), .seed = seed, .config = config},
                    [&](const cuda::RuntimeApi& real) { return mutant.over(real); });
  {
    TorchDevice torch_device(world.device());
    world.run([&](Context& context) {
      Place place(context, torch_device);
      const auto body = omission.fused ? train<FusedSGD> : train<torch::optim::SGD>;
      body(place, world.device(), torch_device, mutant, omission);
    });
  }
  return {world.device().take_violations(), mutant.left_out(), mutant.misplaced()};
}

const Omission kOmissions[] = {
    {.name = "CommStreamDoesNotWaitForBackward", .wait = Wait{Role::lane, Role::backward}},
    {.name = "CommStreamDoesNotWaitForReaderOfLastResults", .wait = Wait{Role::lane, Role::user}},
    {.name = "UpdateDoesNotWaitForCommStream", .wait = Wait{Role::user, Role::lane}},
    {.name = "GradientsAreNotRecorded", .records = true},
    {.name = "DefaultStreamIsUsedAsCurrentStream", .streams = true},
    {.name = "CommStreamDoesNotWaitForFusedUpdate", .wait = Wait{Role::lane, Role::user}, .fused = true},
    {.name = "FusedUpdateDoesNotWaitForCommStream", .wait = Wait{Role::user, Role::lane}, .fused = true},
    {.name = "FusedUpdateIsLaunchedInDefaultStream", .fused = true, .misplaced = true}};

std::string name_of(DeviceReduction reduction) { return reduction == DeviceReduction::host ? "Host" : "Nccl"; }

class BindingMutation : public testing::TestWithParam<std::tuple<DeviceReduction, Omission>> {};
INSTANTIATE_TEST_SUITE_P(Omissions, BindingMutation,
                         testing::Combine(testing::ValuesIn(device_reductions()), testing::ValuesIn(kOmissions)),
                         [](const auto& one) { return name_of(std::get<0>(one.param)) + std::get<1>(one.param).name; });

constexpr std::uint64_t kSeeds = 20;

TEST_P(BindingMutation, RaceIsFoundInEveryOrder) {
  const auto& [reduction, omission] = GetParam();
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Found found = found_with(omission, reduction, seed);
    EXPECT_EQ(found.left_out > 0, omission.wait.has_value());
    EXPECT_EQ(found.misplaced > 0, omission.misplaced);
    EXPECT_THAT(found.violations, testing::Contains(testing::Field(&Violation::fault, Fault::race))) << "seed " << seed;
  }
}

class NoBindingMutation : public testing::TestWithParam<DeviceReduction> {};
INSTANTIATE_TEST_SUITE_P(Reductions, NoBindingMutation, testing::ValuesIn(device_reductions()),
                         [](const auto& one) { return name_of(one.param); });

TEST_P(NoBindingMutation, NoViolationIsFound) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (const bool fused : {false, true}) {
      const Found found = found_with({.name = "nothing", .fused = fused}, GetParam(), seed);
      EXPECT_TRUE(found.violations.empty()) << "seed " << seed << ": " << found.violations.front().text;
    }
  }
}

}  // namespace
}  // namespace kolo::test
