#include "model.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/nn/init.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>

#include "kolo/error.h"
#include "kolo/torch/cuda.h"
#include "kolo/torch/fused_optimizers.h"
#include "ranks.h"

namespace imagenet {
namespace {

struct Arch {
  bool bottleneck;
  std::array<int, 4> blocks;  // of each stage
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

// --- ResNet -------------------------------------------------------------------------------------------------------

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
  if (found == kArchs.end()) {
    throw kolo::UsageError("unknown architecture '" + arch +
                           "'; use resnet18, resnet34, resnet50, resnet101 or resnet152");
  }
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
  for (const auto& module : modules(/*include_self=*/false)) {
    auto* const conv = module->as<torch::nn::Conv2d>();
    if (conv != nullptr) torch::nn::init::kaiming_normal_(conv->weight, 0.0, torch::kFanOut, torch::kReLU);
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

// A 1x1 kernel ignores its dilation, and LibTorch computes all dilated convolutions with oneDNN.
void use_onednn(torch::nn::Module& model) {
  for (const auto& module : model.modules(/*include_self=*/false)) {
    auto* const conv = module->as<torch::nn::Conv2d>();
    if (conv != nullptr && conv->weight.size(2) == 1 && conv->weight.size(3) == 1) conv->options.dilation(2);
  }
}

NamedState state_of(const torch::nn::Module& model) {
  NamedState state;
  const auto add = [&](const std::string& prefix, const torch::nn::Module& module) {
    for (const auto& p : module.named_parameters(/*recurse=*/false)) state.emplace_back(prefix + p.key(), p.value());
    for (const auto& b : module.named_buffers(/*recurse=*/false)) state.emplace_back(prefix + b.key(), b.value());
  };
  add("", model);
  for (const auto& module : model.named_modules("", /*include_self=*/false)) add(module.key() + ".", *module.value());
  return state;
}

void average_statistics(kolo::Context& context, torch::nn::Module& model) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> statistics;
  for (const auto& buffer : model.buffers()) {
    if (buffer.is_floating_point()) statistics.push_back(buffer);
  }
  const at::Tensor flat = at::cat(statistics).cpu();
  average_over_ranks(context, {flat.data_ptr<float>(), static_cast<std::size_t>(flat.numel())});
  std::int64_t offset = 0;
  for (auto& statistic : statistics) {
    statistic.copy_(flat.narrow(0, offset, statistic.numel()));
    offset += statistic.numel();
  }
}

// --- device and precision -----------------------------------------------------------------------------------------

Compute make_compute(kolo::Context& context, const Options& options) {
  Compute compute;
  if (options.amp != Amp::off) compute.amp = options.amp == Amp::bf16 ? at::kBFloat16 : at::kHalf;
  if (options.device == DeviceKind::cpu) return compute;
  try {
    compute.device = kolo::use_cuda(context);
  } catch (const kolo::UsageError& error) {
    throw kolo::UsageError(std::string("--device cuda: ") + error.what() +
                           "\nTo train without a GPU, use --device cpu");
  }
  at::globalContext().setBenchmarkCuDNN(true);  // pays off because all batches have the same size
  return compute;
}

void wait_for(const c10::Device& device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl backend(device.type());
  backend.synchronizeStream(backend.getStream(device));
}

Autocast::Autocast(const Compute& compute) : compute_(compute) {
  if (!compute_.amp) return;
  at::autocast::set_autocast_dtype(compute_.device.type(), *compute_.amp);
  at::autocast::set_autocast_enabled(compute_.device.type(), true);
}

Autocast::~Autocast() {
  if (!compute_.amp) return;
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(compute_.device.type(), false);
}

at::Tensor logits_of(const Compute& compute, ResNet& model, const at::Tensor& images) {
  const Autocast autocast(compute);
  return model.forward(images).to(at::kFloat);
}

Totals::Totals(const c10::Device& device, std::int64_t count)
    : sums_(at::zeros({count}, at::TensorOptions().device(device).dtype(at::kDouble))) {}

void Totals::add(std::int64_t index, const at::Tensor& value, double weight) {
  const at::NoGradGuard no_grad;
  sums_.select(0, index).add_(value, weight);
}

std::vector<double> Totals::read() const {
  const at::Tensor sums = sums_.cpu();
  const double* const first = sums.const_data_ptr<double>();
  return {first, first + sums.numel()};
}

// --- optimizer and learning rate ----------------------------------------------------------------------------------

std::shared_ptr<torch::optim::Optimizer> make_optimizer(const Options& options, const torch::nn::Module& model) {
  using torch::optim::SGDOptions;
  const auto defaults =
      SGDOptions(options.lr).momentum(options.momentum).nesterov(options.nesterov).weight_decay(options.weight_decay);
  std::vector<at::Tensor> decayed, undecayed;
  for (const auto& parameter : model.parameters()) {
    (options.no_decay_norm_bias && parameter.dim() == 1 ? undecayed : decayed).push_back(parameter);
  }
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(decayed, std::make_unique<SGDOptions>(defaults));
  if (!undecayed.empty()) {
    groups.emplace_back(undecayed, std::make_unique<SGDOptions>(SGDOptions(defaults).weight_decay(0)));
  }
  if (options.optimizer == OptimizerKind::torch) return std::make_shared<torch::optim::SGD>(groups, defaults);
  return std::make_shared<kolo::FusedSGD>(groups, defaults);
}

void set_learning_rate(torch::optim::Optimizer& optimizer, double lr) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(lr);
}

double learning_rate(const Options& o, int global_batch, double epoch, double steps_per_epoch) {
  const double peak = o.lr * global_batch / 256.0;
  if (epoch < o.warmup_epochs) return peak * std::min(1.0, (epoch + 1.0 / steps_per_epoch) / o.warmup_epochs);
  if (o.schedule == ScheduleKind::cosine) {
    const double span = std::max(o.epochs - o.warmup_epochs, 1.0 / steps_per_epoch);
    const double done = std::min(1.0, (epoch - o.warmup_epochs) / span);
    return peak * 0.5 * (1.0 + std::cos(std::numbers::pi * done));
  }
  const auto passed = std::ranges::count_if(o.milestones, [&](double milestone) { return epoch >= milestone; });
  return peak * std::pow(0.1, static_cast<double>(passed));
}

}  // namespace imagenet
