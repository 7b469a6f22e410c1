// The other calls of the binding on tensors of devices: copies through CPU memory, and the fused update.
#include "kolo/torch/broadcast.h"
#include "kolo/torch/fused_optimizers.h"
#include "kolo/torch/ops.h"
#include "multirank/torch_device/trainee.h"

namespace kolo::test {
namespace {

// Ranks that begin with different weights and momenta, and end with equal ones.
Tensors begin_together(Place& place) {
  const Net net(place.device, 1 + 50 * static_cast<std::uint64_t>(place.context.rank()));
  const auto sgd = std::make_shared<FusedSGD>(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  net.loss(static_cast<std::uint64_t>(place.context.rank())).backward();
  sgd->step();
  broadcast_parameters(place.context, net.named());
  broadcast_optimizer_state(place.context, *sgd);
  verify_model(place.context, net.named());
  DistributedOptimizer optimizer(place.context, sgd, net.named(), small_buckets_of_tensors());
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    net.loss(static_cast<std::uint64_t>(16 * step + place.context.rank())).backward();
    optimizer.step();
  }
  return net.values();
}

// Operations that begin in one stream and are waited for in another; the program does not order the two streams.
Tensors named_operations(Place& place) {
  const UserStream side = place.side();
  const auto rank = static_cast<std::uint64_t>(place.context.rank());
  side.wait_for(place.main());
  std::vector<TensorWork> works;
  {
    const auto guard = side.enter();
    works.push_back(
        allreduce_async(place.context, numbers(rank, {4, 5}).to(place.device).t(), ReduceOp::average, "averaged"));
    works.push_back(broadcast_async(place.context, numbers(rank, {7}).to(place.device), 1, "given"));
  }
  Tensors all;
  for (auto& work : works) all.push_back((work.wait() * 2).cpu());
  const at::Tensor rows = numbers(rank, {place.context.rank() + 1, 3}).to(place.device);
  all.push_back(allgather(place.context, rows, "gathered").cpu());
  return all;
}

void expect_the_same(const TorchProgram& program) {
  const auto wanted = run_on_cpus(2, program);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto found = run_on_devices({.hosts = one_host(2), .seed = seed}, program);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      ASSERT_EQ(found[rank].size(), wanted[rank].size());
      for (std::size_t i = 0; i < wanted[rank].size(); ++i) {
        EXPECT_TRUE(found[rank][i].allclose(wanted[rank][i], 1e-5, 1e-6)) << "seed " << seed << " tensor " << i;
        EXPECT_TRUE(found[rank][i].equal(found[0][i])) << "ranks differ in tensor " << i;
      }
    }
  }
}

// Before the optimizer is wrapped, torch's fused kernel updates the weights, with the results of the CPU up to
// rounding.
TEST(TensorCollectivesOnDevices, TrainingAfterBroadcastEqualsCpu) { expect_the_same(begin_together); }

TEST(TensorCollectivesOnDevices, NamedOperationsAreReadyInStreamOfWait) { expect_the_same(named_operations); }

}  // namespace
}  // namespace kolo::test
