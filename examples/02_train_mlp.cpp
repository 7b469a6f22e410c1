// A classifier of ten noisy patterns, trained on all ranks. What kolo adds to a LibTorch program is marked with
// numbers.
//
//   mpirun -np 2 02_train_mlp
#include <torch/nn.h>
#include <torch/types.h>

#include <cstdio>

#include "kolo/distributed_sampler.h"
#include "kolo/kolo.h"
#include "kolo/torch/torch.h"

namespace {

constexpr std::int64_t kSamples = 2000;
constexpr std::int64_t kClasses = 10;
constexpr std::int64_t kPixels = 64;
constexpr std::size_t kBatch = 50;

struct Dataset {
  at::Tensor images;
  at::Tensor labels;
};

Dataset make_dataset() {
  torch::manual_seed(1);  // the same on every rank
  const at::Tensor patterns = torch::randn({kClasses, kPixels});
  const at::Tensor labels = torch::arange(kSamples).remainder(kClasses);
  return {patterns.index_select(0, labels) + 0.7 * torch::randn({kSamples, kPixels}), labels};
}

int train(kolo::Context& context) {
  const Dataset data = make_dataset();
  torch::nn::Sequential model(torch::nn::Linear(kPixels, 64), torch::nn::ReLU(), torch::nn::Linear(64, kClasses));
  kolo::FusedSGD sgd(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));

  kolo::broadcast_parameters(context, model);                 // 1: start from the same weights
  kolo::DistributedOptimizer optimizer(context, sgd, model);  // 2: reduce gradients
  kolo::DistributedSampler sampler({.dataset_size = kSamples, .rank = context.rank(), .ranks = context.size()});  // 3

  double accuracy = 0;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    sampler.set_epoch(epoch);
    double loss_sum = 0;
    double correct = 0;
    double seen = 0;
    for (auto samples = sampler.next(kBatch); !samples.empty(); samples = sampler.next(kBatch)) {
      const at::Tensor index = torch::tensor(samples);
      const at::Tensor labels = data.labels.index_select(0, index);
      const at::Tensor output = model->forward(data.images.index_select(0, index));
      const at::Tensor loss = torch::nn::functional::cross_entropy(output, labels);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      loss_sum += loss.item<double>() * static_cast<double>(samples.size());
      correct += output.argmax(1).eq(labels).sum().item<double>();
      seen += static_cast<double>(samples.size());
    }
    const auto total = kolo::allreduce_metrics(context, {loss_sum, correct, seen}, kolo::ReduceOp::sum);  // 4
    accuracy = total[1] / total[2];
    if (context.rank() == 0) {
      std::printf("epoch %d: loss %.3f, accuracy %.1f %%\n", static_cast<int>(epoch), total[0] / total[2],
                  100 * accuracy);
    }
  }
  return accuracy > 0.9 ? 0 : 1;
}

}  // namespace

int main() {
  try {
    const auto context = kolo::Context::create();
    at::set_num_threads(1);
    const int result = context->run([&] { return train(*context); });  // 5: exceptions reach other ranks
    context->shutdown();
    return result;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
