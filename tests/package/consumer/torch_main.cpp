// README.md's training loop, as a program of its own; tests/repo compares the two. Then: did it train, and rightly?
#include <kolo/kolo.h>
#include <kolo/torch/torch.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <cstdio>
#include <exception>
#include <vector>

namespace {

struct Batch {
  at::Tensor images, labels;
};

// Rank `rank`'s share of a task that a linear layer can learn: is the first of four numbers above zero?
std::vector<Batch> batches(int epoch, int rank, int ranks) {
  torch::manual_seed(static_cast<std::uint64_t>(epoch * ranks + rank));
  std::vector<Batch> made;
  for (int i = 0; i < 8; ++i) {
    const at::Tensor images = torch::randn({32, 4});
    made.push_back({images, images.select(1, 0).gt(0).to(torch::kLong)});
  }
  return made;
}

float train(kolo::Context& context, torch::nn::Sequential model) {
  kolo::broadcast_parameters(context, model);  // rank 0's weights, everywhere
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  kolo::DistributedOptimizer optimizer(context, sgd, model);
  at::Tensor loss;
  for (int epoch = 0; epoch < 10; ++epoch) {
    for (auto& [images, labels] : batches(epoch, context.rank(), context.size())) {
      optimizer.zero_grad();
      loss = torch::nn::functional::cross_entropy(model->forward(images), labels);
      loss.backward();   // gradients leave while it runs
      optimizer.step();  // waits for them, and updates; to clip, call optimizer.synchronize() before that
    }
  }
  return loss.item<float>();
}

}  // namespace

int main() {
  try {
    const auto context = kolo::Context::create();
    const float loss = context->run([&] { return train(*context, torch::nn::Sequential(torch::nn::Linear(4, 2))); });
    context->shutdown();
    std::printf("loss after ten epochs: %.3f\n", loss);
    return loss < 0.3F ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
