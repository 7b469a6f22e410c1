#include "resnet.h"

#include <ATen/Functions.h>
#include <torch/nn/init.h>

#include <array>
#include <map>

#include "kolo/error.h"

namespace imagenet {
namespace {

struct Arch {
  bool bottleneck;
  std::array<int, 4> blocks;  // a stage
};

const std::map<std::string, Arch> kArchs = {{"resnet18", {false, {2, 2, 2, 2}}},
                                            {"resnet34", {false, {3, 4, 6, 3}}},
                                            {"resnet50", {true, {3, 4, 6, 3}}},
                                            {"resnet101", {true, {3, 4, 23, 3}}},
                                            {"resnet152", {true, {3, 8, 36, 3}}}};

torch::nn::Conv2d convolution(int in, int out, int kernel, int stride) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

}  // namespace

Block::Block(const Shape& shape) {
  if (shape.bottleneck) {
    add("1", shape.in, shape.width, 1, 1);
    add("2", shape.width, shape.width, 3, shape.stride);
    add("3", shape.width, shape.out(), 1, 1);
  } else {
    add("1", shape.in, shape.width, 3, shape.stride);
    add("2", shape.width, shape.width, 3, 1);
  }
  if (shape.stride != 1 || shape.in != shape.out()) {
    auto downsample = register_module("downsample", std::make_shared<torch::nn::Module>());
    shortcut_conv_ = downsample->register_module("0", convolution(shape.in, shape.out(), 1, shape.stride));
    shortcut_norm_ = downsample->register_module("1", torch::nn::BatchNorm2d(shape.out()));
  }
}

void Block::add(const std::string& number, int in, int out, int kernel, int stride) {
  convs_.push_back(register_module("conv" + number, convolution(in, out, kernel, stride)));
  norms_.push_back(register_module("bn" + number, torch::nn::BatchNorm2d(out)));
}

torch::Tensor Block::forward(const torch::Tensor& input) {
  torch::Tensor x = input;
  for (std::size_t i = 0; i < convs_.size(); ++i) {
    x = norms_[i]->forward(convs_[i]->forward(x));
    if (i + 1 < convs_.size()) x.relu_();
  }
  x += shortcut_conv_ ? shortcut_norm_->forward(shortcut_conv_->forward(input)) : input;
  return x.relu_();
}

ResNet::ResNet(const std::string& arch, int classes, bool zero_init_residual)
    : conv1_(torch::nn::Conv2dOptions(3, 64, 7).stride(2).padding(3).bias(false)), bn1_(64) {
  const auto found = kArchs.find(arch);
  if (found == kArchs.end()) throw kolo::UsageError("unknown architecture '" + arch + "'");
  register_module("conv1", conv1_);
  register_module("bn1", bn1_);
  int channels = 64;
  for (int stage = 0; stage < 4; ++stage) {
    auto layer = register_module("layer" + std::to_string(stage + 1), std::make_shared<torch::nn::Module>());
    for (int i = 0; i < found->second.blocks[stage]; ++i) {
      const Block::Shape shape{found->second.bottleneck, channels, 64 << stage, stage > 0 && i == 0 ? 2 : 1};
      blocks_.push_back(layer->register_module(std::to_string(i), std::make_shared<Block>(shape)));
      channels = shape.out();
    }
  }
  fc_ = register_module("fc", torch::nn::Linear(channels, classes));
  initialise(zero_init_residual);
}

void ResNet::initialise(bool zero_init_residual) {
  for (const auto& module : modules(/*include_self=*/false)) {
    if (auto* convolution = module->as<torch::nn::Conv2d>()) {
      torch::nn::init::kaiming_normal_(convolution->weight, 0.0, torch::kFanOut, torch::kReLU);
    }
  }
  if (!zero_init_residual) return;
  for (const auto& block : blocks_) torch::nn::init::zeros_(block->last_norm()->weight);
}

torch::Tensor ResNet::forward(torch::Tensor images) {
  torch::Tensor x = bn1_->forward(conv1_->forward(images));
  x = at::max_pool2d(x.relu_(), {3, 3}, {2, 2}, {1, 1});
  for (const auto& block : blocks_) x = block->forward(x);
  return fc_->forward(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
}

void use_channels_last(torch::nn::Module& model) {
  for (auto& parameter : model.parameters()) {
    if (parameter.dim() == 4) parameter.set_data(parameter.detach().contiguous(at::MemoryFormat::ChannelsLast));
  }
}

void move_to_device(torch::nn::Module& model, const c10::Device& device) {
  model.to(device);
  for (const auto& module : model.modules(/*include_self=*/false)) {
    auto* const norm = module->as<torch::nn::BatchNorm2d>();
    if (norm != nullptr) norm->num_batches_tracked.set_data(norm->num_batches_tracked.cpu());
  }
}

// A dilation means nothing where there is one weight, and LibTorch gives all that is dilated to oneDNN.
void use_onednn(torch::nn::Module& model) {
  for (const auto& module : model.modules(/*include_self=*/false)) {
    auto* const convolution = module->as<torch::nn::Conv2d>();
    if (convolution == nullptr) continue;
    const bool one_weight = convolution->weight.size(2) == 1 && convolution->weight.size(3) == 1;
    if (one_weight) convolution->options.dilation(2);
  }
}

}  // namespace imagenet
