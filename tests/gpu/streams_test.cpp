// Streams and the caching allocator of a real device: gradients that are late, made in several streams, whose memory is
// wanted again at once. They are whole numbers whose means are exact, so that anything read too early or written over
// shows.
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include "gpu/torch_gpu.h"
#include "gpu/training_context.h"
#include "kolo/torch/torch.h"

namespace kolo::test {
namespace {

constexpr int kSteps = 12;
constexpr int kTensors = 6;

// Parameters w_k of a loss that is the sum of w_k * x_k, whose gradients are the x_k.
class Sums {
 public:
  Sums(Context& context, const c10::Device& device, const std::string& name, std::int64_t elements)
      : context_(context), options_(at::TensorOptions().device(device).dtype(at::kFloat)), elements_(elements) {
    NamedTensors named;
    std::vector<at::Tensor> all;
    for (int k = 0; k < kTensors; ++k) {
      weights_.push_back(torch::zeros({elements_ + k}, options_.requires_grad(true)));
      all.push_back(weights_.back());
      named.emplace_back(name + std::to_string(k), weights_.back());
    }
    DistributedOptions distributed;
    distributed.bucket_bytes = static_cast<std::size_t>(elements) * 8;  // two tensors
    optimizer_ = std::make_unique<DistributedOptimizer>(
        context, std::make_shared<torch::optim::SGD>(all, torch::optim::SGDOptions(1.0)), named, distributed);
    // Streams of torch's pool are not ordered with the one in which the zeros were written.
    if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
  }

  // Behind work that keeps the current stream busy for a while: nobody who forgets to wait can be right.
  void backward(int step) {
    optimizer_->zero_grad();
    at::Tensor busy = torch::full({busy_size(), busy_size()}, 1e-6, options_);
    for (int i = 0; i < 20; ++i) busy = busy.mm(busy);
    const at::Tensor nothing = busy.sum() * 0;
    at::Tensor loss = torch::zeros({}, options_);
    for (int k = 0; k < kTensors; ++k) {
      const double value = gradient(context_.rank(), step, k);
      const at::Tensor x = torch::full_like(weights_[static_cast<std::size_t>(k)], value).detach() + nothing;
      loss = loss + (weights_[static_cast<std::size_t>(k)] * x).sum();
    }
    loss.backward();
  }
  void step() { optimizer_->step(); }

  void check_gradients(int step) const {
    for (int k = 0; k < kTensors; ++k) expect_all(weights_[static_cast<std::size_t>(k)].grad(), mean(step, k), step, k);
  }
  void check_weights() const {
    for (int k = 0; k < kTensors; ++k) {
      double sum = 0;
      for (int step = 0; step < kSteps; ++step) sum -= mean(step, k);
      expect_all(weights_[static_cast<std::size_t>(k)], sum, kSteps, k);
    }
  }
  // Takes and fills all the memory of that size that the allocator has at hand, in the current stream.
  void scribble() const {
    std::vector<at::Tensor> taken;
    for (int k = 0; k < 2 * kTensors; ++k) taken.push_back(torch::full({elements_ + k % kTensors}, -1e9, options_));
  }

 private:
  [[nodiscard]] static double gradient(int rank, int step, int k) { return 8.0 * (1 + step + 3 * rank) + k; }
  [[nodiscard]] double mean(int step, int k) const {
    double sum = 0;
    for (int rank = 0; rank < context_.size(); ++rank) sum += gradient(rank, step, k);
    return sum / context_.size();
  }
  [[nodiscard]] std::int64_t busy_size() const { return options_.device().is_cpu() ? 16 : 1024; }

  void expect_all(const at::Tensor& tensor, double value, int step, int k) const {
    ASSERT_TRUE(tensor.defined()) << "step " << step << ", tensor " << k;
    const at::Tensor here = tensor.detach().cpu();
    const at::Tensor differs = (here - value).abs() > 1e-5 * std::abs(value);  // a mean over 3 ranks is rounded
    const auto wrong = differs.sum().item<std::int64_t>();
    EXPECT_EQ(wrong, 0) << "step " << step << ", tensor " << k << " of rank " << context_.rank() << ": " << wrong
                        << " of " << here.numel() << " elements are not " << value << " but for example "
                        << here.index({differs}).flatten().slice(0, 0, 3);
  }

  Context& context_;
  at::TensorOptions options_;
  std::int64_t elements_;
  std::vector<at::Tensor> weights_;
  std::unique_ptr<DistributedOptimizer> optimizer_;
};

constexpr std::int64_t kElements = 300'000;

class Streams : public testing::Test {
 protected:
  std::unique_ptr<Context> context = training_context();
  c10::Device device = training_device(*context);
};

TEST_F(Streams, GradientsThatAreLate) {
  Sums sums(*context, device, "w", kElements);
  for (int step = 0; step < kSteps; ++step) {
    sums.backward(step);
    sums.step();
    sums.check_gradients(step);
  }
  sums.check_weights();
}

// Many steps behind each other: the host looks at nothing before the last one.
TEST_F(Streams, TheHostRunsAhead) {
  Sums sums(*context, device, "w", kElements);
  for (int step = 0; step < kSteps; ++step) {
    sums.backward(step);
    sums.step();
  }
  sums.check_gradients(kSteps - 1);
  sums.check_weights();
}

TEST_F(Streams, BackwardInASideStreamAndTheStepInAnother) {
  Sums sums(*context, device, "w", kElements);
  const c10::Stream first = side_stream(device), second = side_stream(device);
  for (int step = 0; step < kSteps; ++step) {
    const c10::StreamGuard guard(first);
    sums.backward(step);
    sums.step();
    sums.check_gradients(step);
  }
  const c10::StreamGuard guard(second);  // behind first: the last check waited for it
  sums.backward(kSteps);
  sums.step();
  sums.check_gradients(kSteps);
}

TEST_F(Streams, MemoryThatIsWantedAgainAtOnce) {
  Sums sums(*context, device, "w", kElements);
  const c10::Stream side = side_stream(device);
  for (int step = 0; step < kSteps; ++step) {
    sums.backward(step);
    sums.scribble();
    {
      const c10::StreamGuard guard(side);
      sums.scribble();
    }
    sums.step();
    sums.check_gradients(step);
    sums.scribble();
  }
  sums.check_weights();
}

TEST_F(Streams, TwoModelsInTwoStreams) {
  Sums one(*context, device, "one", kElements), two(*context, device, "two", kElements / 3);
  const c10::Stream first = side_stream(device), second = side_stream(device);
  const auto in = [](const c10::Stream& stream, const auto& body) {
    const c10::StreamGuard guard(stream);
    body();
  };
  for (int step = 0; step < kSteps; ++step) {
    in(first, [&] { one.backward(step); });
    in(second, [&] { two.backward(step); });
    in(second, [&] { two.step(); });
    in(first, [&] { one.step(); });
    in(first, [&] { one.check_gradients(step); });
    in(second, [&] { two.check_gradients(step); });
  }
  in(first, [&] { one.check_weights(); });
  in(second, [&] { two.check_weights(); });
}

}  // namespace
}  // namespace kolo::test
