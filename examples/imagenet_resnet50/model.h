#pragma once
// The network, its device and precision, its optimizer, and the learning rate.
// ResNet v1.5 (a bottleneck's stride is in its 3x3), with the names and the order of torchvision's parameters.
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/optimizer.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kolo/context.h"
#include "options.h"

namespace imagenet {

// A residual block of convolutions, each followed by BatchNorm and ReLU; the last ReLU follows the addition of the
// shortcut. Two 3x3 (basic), or 1x1, 3x3, 1x1 (bottleneck).
class Block : public torch::nn::Module {
 public:
  struct Shape {
    bool bottleneck;
    int in, width, stride;
    [[nodiscard]] int out() const { return bottleneck ? 4 * width : width; }
  };
  explicit Block(const Shape& shape);
  torch::Tensor forward(const torch::Tensor& input);
  // The norm whose weight scales the block's output before the addition.
  torch::nn::BatchNorm2d last_norm() { return norms_.back(); }

 private:
  void add(const std::string& number, int in, int out, int kernel, int stride);

  std::vector<torch::nn::Conv2d> convs_;
  std::vector<torch::nn::BatchNorm2d> norms_;
  torch::nn::Conv2d shortcut_conv_{nullptr};  // only if the block changes the shape
  torch::nn::BatchNorm2d shortcut_norm_{nullptr};
};

class ResNet : public torch::nn::Module {
 public:
  // `arch`: resnet18, 34, 50, 101 or 152; throws kolo::UsageError for others. Initialized as in torchvision, from
  // LibTorch's default generator: He's normal by fan-out; with `zero_init_residual` each block begins as the identity.
  ResNet(const std::string& arch, int classes, bool zero_init_residual);
  // Images as [n, 3, h, w] in any memory format; logits [n, classes].
  torch::Tensor forward(torch::Tensor images);

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  std::vector<std::shared_ptr<Block>> blocks_;
  torch::nn::Linear fc_{nullptr};
};

// Gives every 4-d parameter channels_last strides. Call before an optimizer holds the parameters.
void use_channels_last(torch::nn::Module& model);
// Leaves BatchNorm's counts of batches in CPU memory: no result depends on them, and each would cost a kernel a step.
void move_to_device(torch::nn::Module& model, const c10::Device& device);
// Makes oneDNN compute the 1x1 convolutions on CPUs. With one thread and fewer than 16 images LibTorch uses MKL's
// matrix product instead, and a step takes up to twice as long on some processors.
void use_onednn(torch::nn::Module& model);

using NamedState = std::vector<std::pair<std::string, at::Tensor>>;
// Parameters and buffers in the order of PyTorch's state_dict().
[[nodiscard]] NamedState state_of(const torch::nn::Module& model);

// Averages BatchNorm's running statistics, which differ between ranks because each has seen other images. Afterwards
// evaluation and checkpoints do not depend on the rank. Collective.
void average_statistics(kolo::Context& context, torch::nn::Module& model);

struct Compute {
  c10::Device device = c10::DeviceType::CPU;
  std::optional<c10::ScalarType> amp;  // the type of autocast
};

// With --device cuda: loads LibTorch's CUDA backend and selects this rank's GPU; call it before other functions of
// LibTorch that ask for devices. Collective; throws kolo::UsageError on all ranks if a rank has no GPU.
Compute make_compute(kolo::Context& context, const Options& options);

// Waits until the device has completed the work in the current stream.
void wait_for(const c10::Device& device);

// Automatic mixed precision during its lifetime, for forward and loss; backward follows the types of forward. Its end
// drops cached casts of weights, because the weights change afterwards.
class Autocast {
 public:
  explicit Autocast(const Compute& compute);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  Compute compute_;
};

// In fp32 in all precisions, because losses need it.
at::Tensor logits_of(const Compute& compute, ResNet& model, const at::Tensor& images);

// Sums of values that are computed on a device. add() does not wait for the device.
class Totals {
 public:
  Totals(const c10::Device& device, std::int64_t count);
  void add(std::int64_t index, double value) { sums_.select(0, index).add_(value); }
  // Adds weight * value; `value` has one element.
  void add(std::int64_t index, const at::Tensor& value, double weight = 1);
  // Waits for the device.
  [[nodiscard]] std::vector<double> read() const;

 private:
  at::Tensor sums_;
};

// SGD with momentum over the model's parameters. With no_decay_norm_bias a second group without weight decay holds
// the parameters of one dimension.
std::shared_ptr<torch::optim::Optimizer> make_optimizer(const Options& options, const torch::nn::Module& model);
void set_learning_rate(torch::optim::Optimizer& optimizer, double lr);

//   lr                       step                      lr                  cosine
//   peak      /-----------.                            peak      /--.
//           /             |                                    /      `.
//         /               '-----.                            /          `.
//       /                       '---                       /              `-.
//      warm-up    30    60   80   epochs                  warm-up           epochs
//
// The learning rate of the step that begins at `epoch` (fractional). The peak is options.lr * global_batch / 256. The
// warm-up is linear and reaches the peak with its last step; the cosine ends at 0 after the last epoch.
[[nodiscard]] double learning_rate(const Options& options, int global_batch, double epoch, double steps_per_epoch);

}  // namespace imagenet
