// The networks against torchvision's: names, counts, shapes, initial values.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/native/ConvUtils.h>
#include <gmock/gmock.h>
#include <torch/utils.h>

#include <cmath>
#include <map>
#include <set>

#include "kolo/error.h"
#include "model.h"

namespace imagenet {
namespace {

std::int64_t parameter_count(const ResNet& model) {
  std::int64_t count = 0;
  for (const auto& p : model.parameters()) count += p.numel();
  return count;
}

// Built from the architecture's description in torchvision's naming, not from our code.
std::set<std::string> expected_names(const std::vector<int>& blocks, int convs_a_block, bool first_stage_projects) {
  std::set<std::string> names;
  const auto norm = [&](const std::string& prefix) {
    for (const char* leaf : {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}) {
      names.insert(prefix + "." + leaf);
    }
  };
  names.insert("conv1.weight");
  norm("bn1");
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    for (int block = 0; block < blocks[stage]; ++block) {
      const std::string at = "layer" + std::to_string(stage + 1) + "." + std::to_string(block) + ".";
      for (int conv = 1; conv <= convs_a_block; ++conv) {
        names.insert(at + "conv" + std::to_string(conv) + ".weight");
        norm(at + "bn" + std::to_string(conv));
      }
      if (block == 0 && (stage > 0 || first_stage_projects)) {
        names.insert(at + "downsample.0.weight");
        norm(at + "downsample.1");
      }
    }
  }
  names.insert("fc.weight");
  names.insert("fc.bias");
  return names;
}

std::set<std::string> names_of(const ResNet& model) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : state_of(model)) names.insert(name);
  return names;
}

TEST(TrainerModel, ResNet50HasTorchvisionsNames) {
  const ResNet model("resnet50", 1000, false);
  EXPECT_EQ(state_of(model).size(), 320U);
  EXPECT_EQ(names_of(model), expected_names({3, 4, 6, 3}, 3, true));
  EXPECT_EQ(model.parameters().size(), 161U);
}

TEST(TrainerModel, ResNet18HasTorchvisionsNames) {
  const ResNet model("resnet18", 1000, false);
  EXPECT_EQ(state_of(model).size(), 122U);
  EXPECT_EQ(names_of(model), expected_names({2, 2, 2, 2}, 2, false));
}

TEST(TrainerModel, StateIsInStateDictOrder) {
  const auto state = state_of(ResNet("resnet50", 10, false));
  const std::vector<std::string> head = {"conv1.weight",         "bn1.weight",      "bn1.bias",
                                         "bn1.running_mean",     "bn1.running_var", "bn1.num_batches_tracked",
                                         "layer1.0.conv1.weight"};
  for (std::size_t i = 0; i < head.size(); ++i) EXPECT_EQ(state[i].first, head[i]);
  EXPECT_EQ(state[state.size() - 2].first, "fc.weight");
  EXPECT_EQ(state.back().first, "fc.bias");
}

TEST(TrainerModel, ParameterCountsEqualPublishedCounts) {
  const std::map<std::string, std::int64_t> published = {{"resnet18", 11689512},
                                                         {"resnet34", 21797672},
                                                         {"resnet50", 25557032},
                                                         {"resnet101", 44549160},
                                                         {"resnet152", 60192808}};
  for (const auto& [arch, count] : published) EXPECT_EQ(parameter_count(ResNet(arch, 1000, false)), count) << arch;
}

TEST(TrainerModel, StrideIsInThreeByThreeConvolution) {
  const ResNet model("resnet50", 1000, false);
  for (const auto& module : model.named_modules("", false)) {
    const auto* conv = module.value()->as<torch::nn::Conv2d>();
    if (conv == nullptr || module.key().find("layer3.0.conv") == std::string::npos) continue;
    EXPECT_EQ(conv->options.stride()->at(0), module.key() == "layer3.0.conv2" ? 2 : 1) << module.key();
  }
}

TEST(TrainerModel, WeightsAreInitialisedByFanOut) {
  at::manual_seed(3);
  const ResNet model("resnet50", 1000, false);
  const auto weight = model.named_parameters()["layer3.1.conv2.weight"].detach();
  const double expected = std::sqrt(2.0 / (256 * 3 * 3));
  EXPECT_NEAR(weight.std().item<double>(), expected, 0.01 * expected);
  EXPECT_NEAR(weight.mean().item<double>(), 0.0, 0.01 * expected);
}

TEST(TrainerModel, ZeroInitResidualZeroesOnlyLastNormOfEachBlock) {
  const ResNet model("resnet50", 10, true);
  int zeros = 0;
  for (const auto& p : model.named_parameters()) {
    if (p.key().find("bn") == std::string::npos || !p.key().ends_with(".weight")) continue;
    const bool last = p.key().find(".bn3.") != std::string::npos;
    EXPECT_EQ(p.value().abs().sum().item<double>() == 0.0, last) << p.key();
    zeros += last ? 1 : 0;
  }
  EXPECT_EQ(zeros, 16);
}

TEST(TrainerModel, ForwardIsEqualInBothMemoryFormats) {
  at::manual_seed(5);
  ResNet model("resnet18", 7, false);
  const auto images = at::randn({3, 3, 32, 32});
  const auto contiguous = model.forward(images);
  use_channels_last(model);
  const auto last = model.forward(images.contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_EQ(contiguous.sizes(), (std::vector<std::int64_t>{3, 7}));
  EXPECT_TRUE(at::allclose(contiguous, last, 1e-3, 1e-4));
  for (const auto& p : model.parameters()) {
    if (p.dim() == 4) {
      EXPECT_TRUE(p.is_contiguous(at::MemoryFormat::ChannelsLast));
    }
  }
}

// As the trainer is started, one rank a core.
class OneThread {
 public:
  OneThread() { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_ = at::get_num_threads();
};

// Which library makes a convolution of 4 images.
at::native::ConvBackend backend_of(const torch::nn::Conv2dImpl& convolution) {
  const auto& options = convolution.options;
  const auto symbolic = [](const torch::ExpandingArray<2>& numbers) { return c10::fromIntArrayRefSlow(*numbers); };
  const std::vector<c10::SymInt> none{0, 0};
  return at::native::select_conv_backend(at::zeros({4, options.in_channels(), 8, 8}), convolution.weight.detach(), {},
                                         symbolic(options.stride()),
                                         symbolic(std::get<torch::ExpandingArray<2>>(options.padding())),
                                         symbolic(options.dilation()), false, none, 1, {});
}

TEST(TrainerModel, OneDnnComputesAllConvolutions) {
  const OneThread one;
  ResNet model("resnet50", 10, false);
  use_onednn(model);
  int found = 0;
  for (const auto& module : model.modules(false)) {
    const auto* convolution = module->as<torch::nn::Conv2d>();
    if (convolution == nullptr) continue;
    EXPECT_EQ(backend_of(*convolution), at::native::ConvBackend::Mkldnn) << convolution->weight.sizes();
    ++found;
  }
  EXPECT_EQ(found, 53);
}

TEST(TrainerModel, OneDnnResultsEqualDefaultResults) {
  const OneThread one;
  at::manual_seed(5);
  const auto images = at::randn({4, 64, 8, 8});
  auto model = std::make_shared<torch::nn::Module>();
  const auto convolution =
      model->register_module("0", torch::nn::Conv2d(torch::nn::Conv2dOptions(64, 96, 1).stride(2).bias(false)));
  const auto results = [&] {
    const auto input = images.clone().requires_grad_();
    const auto output = convolution->forward(input);
    convolution->weight.mutable_grad().reset();
    output.square().sum().backward();
    return std::vector<at::Tensor>{output, input.grad(), convolution->weight.grad()};
  };
  const auto before = results();
  use_onednn(*model);
  const auto after = results();
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::allclose(before[i], after[i], 1e-4, 1e-4)) << i;
}

TEST(TrainerModel, UnknownArchitectureIsUsageError) { EXPECT_THROW(ResNet("resnet51", 10, false), kolo::UsageError); }

}  // namespace
}  // namespace imagenet
