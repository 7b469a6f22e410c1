// Learns whether the first of four numbers is positive. Each rank draws its own samples.
//
//   mpirun -np 2 first_program
#include <kolo/kolo.h>
#include <kolo/torch/torch.h>
#include <torch/torch.h>

#include <cstdio>

double train(kolo::Context& context) {
  torch::nn::Sequential model(torch::nn::Linear(4, 2));
  torch::optim::SGD sgd(model->parameters(), 0.5);
  kolo::broadcast_parameters(context, model);                 // equal weights on all ranks
  kolo::DistributedOptimizer optimizer(context, sgd, model);  // averaged gradients

  torch::manual_seed(100 + context.rank());
  at::Tensor loss;
  for (int step = 0; step < 200; ++step) {  // equally many on all ranks
    const at::Tensor samples = torch::randn({32, 4});
    const at::Tensor labels = samples.select(1, 0).gt(0).to(torch::kLong);
    optimizer.zero_grad();
    loss = torch::nn::functional::cross_entropy(model->forward(samples), labels);
    loss.backward();   // starts the allreduce of each full bucket
    optimizer.step();  // waits for the averages, then updates the weights
  }
  return kolo::allreduce_metrics(context, {loss.item<double>()})[0];  // the mean; all ranks call it
}

int main() {
  try {
    const auto context = kolo::Context::create();
    const double loss = context->run([&] { return train(*context); });
    if (context->rank() == 0) std::printf("%d ranks, loss %.2f\n", context->size(), loss);
    context->shutdown();
    return loss < 0.3 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
