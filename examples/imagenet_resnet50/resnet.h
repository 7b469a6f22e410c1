#pragma once
// ResNet v1.5 (a bottleneck's stride is in its 3x3), with the names of torchvision's parameters and buffers, in its
// order.
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <memory>
#include <string>
#include <vector>

namespace imagenet {

// A residual block: `conv` and `bn` alternate, with a ReLU after all but the last, which meets the shortcut first. Two
// 3x3 (basic), or 1x1, 3x3, 1x1 (bottleneck).
class Block : public torch::nn::Module {
 public:
  struct Shape {
    bool bottleneck;
    int in, width, stride;
    [[nodiscard]] int out() const { return bottleneck ? 4 * width : width; }
  };
  explicit Block(const Shape& shape);
  torch::Tensor forward(const torch::Tensor& input);
  // The norm whose weight decides how much of the block is added to the shortcut.
  torch::nn::BatchNorm2d last_norm() { return norms_.back(); }

 private:
  void add(const std::string& number, int in, int out, int kernel, int stride);

  std::vector<torch::nn::Conv2d> convs_;
  std::vector<torch::nn::BatchNorm2d> norms_;
  torch::nn::Conv2d shortcut_conv_{nullptr};  // where the shape changes
  torch::nn::BatchNorm2d shortcut_norm_{nullptr};
};

class ResNet : public torch::nn::Module {
 public:
  // `arch`: resnet18, 34, 50, 101 or 152; throws kolo::UsageError for others. Initialised as torchvision does, from
  // LibTorch's generator: He's normal by fan-out; with `zero_init_residual` every block begins as the identity.
  ResNet(const std::string& arch, int classes, bool zero_init_residual);
  // Images as [n, 3, h, w] in any memory format; logits [n, classes].
  torch::Tensor forward(torch::Tensor images);

 private:
  void initialise(bool zero_init_residual);

  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  std::vector<std::shared_ptr<Block>> blocks_;
  torch::nn::Linear fc_{nullptr};
};

// Moves every 4-d parameter to channels_last strides. Before an optimizer holds the parameters.
void use_channels_last(torch::nn::Module& model);

// Leaves the counts of batches that BatchNorm keeps in the host's memory: nothing is computed from them, and on a
// device each is a kernel a step.
void move_to_device(torch::nn::Module& model, const c10::Device& device);

// Has oneDNN make the model's 1x1 convolutions on CPUs. On one thread LibTorch gives those of fewer than 16 images to
// MKL's matrix product instead, with which a step takes up to twice as long on some processors.
void use_onednn(torch::nn::Module& model);

}  // namespace imagenet
