#pragma once
// What the programs of these tests train.
#include <torch/optim/sgd.h>

#include "multirank/torch_device/torch_world.h"

namespace kolo::test {

inline constexpr int kSteps = 3;

// A rank's net, its optimizer, and its batches.
template <class Optimizer>
struct TraineeOf {
  explicit TraineeOf(Place& place, std::uint64_t seed = 1, DistributedOptions options = small_buckets_of_tensors())
      : net(place.device, seed),
        optimizer(place.context,
                  std::make_shared<Optimizer>(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)),
                  net.named(), options),
        rank(place.context.rank()) {}

  [[nodiscard]] at::Tensor loss(int batch) const { return net.loss(static_cast<std::uint64_t>(batch * 16 + rank)); }
  [[nodiscard]] const at::Tensor& gradient(std::size_t index) const { return net.parameters()[index].grad(); }

  Net net;
  DistributedOptimizer optimizer;
  int rank;
};
using Trainee = TraineeOf<torch::optim::SGD>;

// `body` in `side`, behind what is in `main` by now; what follows in `main` comes after it.
template <class Body>
void in_side_stream(const UserStream& main, const UserStream& side, const Body& body) {
  side.wait_for(main);
  {
    const auto guard = side.enter();
    body();
  }
  main.wait_for(side);
}

}  // namespace kolo::test
