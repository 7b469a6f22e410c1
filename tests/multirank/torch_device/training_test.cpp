// DistributedOptimizer on tensors of devices gives the bits of the CPU, in every order in which the devices run their
// work and with each reduction, and the simulated device finds no violation.
//
// Two ranks: a sum of two has no order, and its half is exact. With more ranks, NCCL and the CPU round sums in
// different orders.
#include "kolo/torch/distributed_optimizer.h"
#include "kolo/torch/fused_optimizers.h"
#include "multirank/torch_device/gradient_programs.h"
#include "multirank/torch_device/stream_programs.h"

namespace kolo::test {
namespace {

struct Case {
  const char* name;
  TorchProgram program;
};
const Case kCases[] = {{"Plain", plain},
                       {"ZeroedInPlace", zeroed_in_place},
                       {"BackwardInASideStream", backward_in_a_side_stream},
                       {"ZeroedForASideStream", added_in_a_side_stream<true>},
                       {"AddedInASideStream", added_in_a_side_stream<false>},
                       {"ZeroedAfterAStepInASideStream", zeroed_after_a_step_in_a_side_stream},
                       {"BackwardCalledFromElsewhere", backward_called_from_elsewhere},
                       {"StepInASideStream", step_in_a_side_stream},
                       {"SynchronizeElsewhere", synchronize_elsewhere},
                       {"StepInChangingStreams", step_in_changing_streams},
                       {"TwoModels", two_models},
                       {"GradientsKept", gradients_kept},
                       {"GradientsKeptElsewhere", gradients_kept_elsewhere},
                       {"GradientsChangedBeforeTheStep", gradients_changed_before_the_step},
                       {"GradientsDropped", gradients_dropped},
                       {"ParametersWithoutAGradient", parameters_without_a_gradient},
                       {"GradientsInAFlatTensor", gradients_in_a_flat_tensor},
                       {"SeveralPasses", several_passes},
                       {"GradientsMadeWithoutHooks", gradients_made_without_hooks},
                       {"ParametersThatJoin", parameters_that_join},
                       {"AStepThatFails", a_step_that_fails}};

class TrainingOnDevices : public testing::TestWithParam<std::tuple<DeviceReduction, Case>> {
 protected:
  static DeviceWorld::Options world(const Hosts& hosts, std::uint64_t seed) {
    DeviceWorld::Options options{.hosts = hosts, .seed = seed};
    options.config.device_reduction = std::get<0>(GetParam());
    return options;
  }
  static const TorchProgram& program() { return std::get<1>(GetParam()).program; }
};
INSTANTIATE_TEST_SUITE_P(Programs, TrainingOnDevices,
                         testing::Combine(testing::ValuesIn(device_reductions()), testing::ValuesIn(kCases)),
                         [](const auto& one) {
                           const bool host = std::get<0>(one.param) == DeviceReduction::host;
                           return std::string(std::get<1>(one.param).name) + (host ? "ByHosts" : "ByNccl");
                         });

// With one rank and a prescale, each gradient is packed and tracked as with several ranks.
Tensors scaled_by_a_lone_rank(Place& place) {
  const at::Tensor weight = at::ones({4}).to(place.device).requires_grad_();
  const auto sgd = std::make_shared<FusedSGD>(std::vector<at::Tensor>{weight}, torch::optim::SGDOptions(0.5));
  DistributedOptimizer optimizer(place.context, sgd, NamedTensors{{"weight", weight}}, {.prescale = 0.5});
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    (weight * (step + 1)).sum().backward();
    optimizer.step();
  }
  return {weight.detach().cpu()};
}

TEST(TrainingOnDevices, WithOneRankAndPrescaleHasExactWeights) {
  const auto found = run_on_devices({.hosts = one_host(1)}, scaled_by_a_lone_rank);
  EXPECT_TRUE(found[0][0].equal(at::full({4}, -0.5)));
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) { return a.equal(b); }
bool nearly_same(const at::Tensor& a, const at::Tensor& b) { return a.allclose(b, 1e-5, 1e-6); }

void compare(const std::vector<Tensors>& found, const std::vector<Tensors>& wanted, bool bits, std::uint64_t seed) {
  for (std::size_t rank = 0; rank < wanted.size(); ++rank) {
    ASSERT_EQ(found[rank].size(), wanted[rank].size());
    for (std::size_t i = 0; i < wanted[rank].size(); ++i) {
      EXPECT_TRUE((bits ? same_bits : nearly_same)(found[rank][i], wanted[rank][i]))
          << "seed " << seed << " rank " << rank << " tensor " << i;
    }
  }
}

TEST_P(TrainingOnDevices, HasBitsOfCpu) {
  const auto wanted = run_on_cpus(2, program());
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    compare(run_on_devices(world(one_host(2), seed), program()), wanted, true, seed);
  }
}

TEST_P(TrainingOnDevices, HasBitsOfCpuWithOneRank) {
  const auto wanted = run_on_cpus(1, program());
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    compare(run_on_devices(world(one_host(1), seed), program()), wanted, true, seed);
  }
}

TEST_P(TrainingOnDevices, EqualsCpuUpToRoundingOnThreeRanksOfTwoHosts) {
  const auto wanted = run_on_cpus(3, program());
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    compare(run_on_devices(world({0, 0, 1}, seed), program()), wanted, false, seed);
  }
}

}  // namespace
}  // namespace kolo::test
