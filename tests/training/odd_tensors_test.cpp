// Tensors whose bytes are not their values, or that kolo does not support: right results, or one error on every rank
// before any value changes.
#include <ATen/ops/_efficientzerotensor.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <functional>

#include "kolo/context.h"
#include "kolo/data/normalize_images.h"
#include "kolo/error.h"
#include "kolo/torch/torch.h"
#include "support/local_ranks.h"

namespace {

using kolo::Context;
using kolo::DistributedOptimizer;
using kolo::NamedTensors;
using kolo::ReduceOp;
using kolo::test::on_ranks;
using testing::HasSubstr;

template <class Act>
void expect_usage_error(const std::string& text, const Act& act) {
  try {
    act();
    ADD_FAILURE() << "no UsageError: " << text;
  } catch (const kolo::UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

at::Tensor inference(std::vector<std::int64_t> sizes, double value) {
  const c10::InferenceMode guard;
  return torch::full(sizes, value);
}

// Tensors of size [4] whose values are all `value`.
using Make = std::function<at::Tensor(double)>;
const std::vector<std::pair<std::string, Make>> kKinds = {
    {"plain", [](double value) { return torch::full({4}, value); }},
    {"negated", [](double value) { return torch::_neg_view(torch::full({4}, -value)); }},
    {"imaginary part of a conjugate",
     [](double value) { return torch::imag(torch::complex(torch::zeros({4}), torch::full({4}, -value)).conj()); }},
    {"gaps",
     [](double value) {
       return torch::full({4, 3}, value).select(1, 1);
     }},
    {"negated with gaps",
     [](double value) {
       return torch::_neg_view(torch::full({4, 3}, -value)).select(1, 1);
     }},
    {"inference", [](double value) { return inference({4}, value); }},
    {"inference with gaps",
     [](double value) {
       return inference({4, 3}, value).select(1, 1);
     }},
    {"view of a leaf",
     [](double value) {
       return torch::full({4}, value).requires_grad_(true).view({2, 2}).detach().view({4});
     }},
};

// With and without a plain tensor on rank 0: the kinds of tensors may differ between ranks.
TEST(TensorKinds, EveryKindIsReducedBroadcastAndGathered) {
  on_ranks(2, [](Context& context) {
    for (const auto& [kind, make] : kKinds) {
      for (const bool on_all : {false, true}) {
        SCOPED_TRACE(kind);
        const auto mine = [&](double value) {
          return on_all || context.rank() == 1 ? make(value) : torch::full({4}, value);
        };
        const double value = context.rank() + 1;
        const at::Tensor reduced = mine(value);
        EXPECT_TRUE(kolo::allreduce_(context, reduced, ReduceOp::sum, "x").is_same(reduced));
        EXPECT_TRUE(reduced.eq(3).all().item<bool>()) << reduced;
        for (const int root : {0, 1}) {
          const at::Tensor sent = mine(value);
          kolo::broadcast_(context, sent, root, "x");
          EXPECT_TRUE(sent.eq(root + 1).all().item<bool>()) << sent;
        }
        const at::Tensor all = kolo::allgather(context, mine(value), "x");
        EXPECT_TRUE(all.equal(torch::tensor({1, 1, 1, 1, 2, 2, 2, 2}, torch::kFloat))) << all;
      }
    }
  });
}

TEST(TensorKinds, EveryKindIsBroadcastAsParameter) {
  on_ranks(2, [](Context& context) {
    for (const auto& [kind, make] : kKinds) {
      SCOPED_TRACE(kind);
      for (const int root : {0, 1}) {
        const at::Tensor tensor = make(context.rank() + 1);
        kolo::broadcast_parameters(context, NamedTensors{{"w", tensor}}, root);
        EXPECT_TRUE(tensor.eq(root + 1).all().item<bool>()) << tensor;
      }
    }
  });
}

TEST(TensorKinds, LazilyNegatedTensorOfOneRankIsBroadcastAsParameter) {
  on_ranks(2, [](Context& context) {
    for (const int root : {0, 1}) {
      const double value = context.rank() + 1;
      const at::Tensor tensor =
          context.rank() == 1 ? torch::_neg_view(torch::full({2, 4}, -value)) : torch::full({2, 4}, value);
      kolo::broadcast_parameters(context, NamedTensors{{"w", tensor}}, root);
      EXPECT_TRUE(tensor.eq(root + 1).all().item<bool>()) << tensor;
    }
  });
}

TEST(TensorKinds, InferenceTensorsAreReducedInsideAndOutsideInferenceMode) {
  on_ranks(2, [](Context& context) {
    const at::Tensor made_inside = inference({4}, 1);
    kolo::allreduce_(context, made_inside, ReduceOp::sum, "x");
    EXPECT_EQ(made_inside.sum().item<float>(), 8);
    const at::Tensor made_outside = torch::ones({4});
    const at::Tensor gaps = torch::ones({4, 2}).select(1, 0);
    {
      const c10::InferenceMode guard;
      for (const at::Tensor& tensor : {made_inside, made_outside, gaps}) {
        kolo::allreduce_(context, tensor, ReduceOp::sum, "x");
      }
      EXPECT_EQ(kolo::allgather(context, made_inside, "x").sum().item<float>(), 32);
    }
    EXPECT_EQ(made_inside.sum().item<float>(), 16);
    EXPECT_EQ(made_outside.sum().item<float>(), 8);
    EXPECT_EQ(gaps.sum().item<float>(), 8);
  });
}

// Autograd must see that a tensor which it has saved was written.
TEST(TensorKinds, AllreduceIncrementsVersionOfTensor) {
  on_ranks(2, [](Context& context) {
    for (const at::Tensor& tensor : {torch::ones({4}), torch::ones({4, 2}).select(1, 0)}) {
      const auto version = tensor._version();
      kolo::allreduce_(context, tensor, kolo::ReduceOp::average, "x");
      EXPECT_GT(tensor._version(), version);
    }
  });
}

// Unsupported tensors, with the text of the error.
const std::vector<std::pair<std::string, std::function<at::Tensor()>>> kRefused = {
    {"is undefined", [] { return at::Tensor(); }},
    {"has elements that overlap",
     [] {
       return torch::ones({1, 4}).expand({3, -1});
     }},
    {"has elements that overlap",
     [] {
       return torch::ones({6}).as_strided({3, 4}, {1, 1});
     }},
    {"is sparse",
     [] {
       return torch::ones({3, 4}).to_sparse();
     }},
    {"is complex",
     [] {
       return torch::ones({3, 4}, torch::kComplexFloat);
     }},
    {"is quantized",
     [] {
       return torch::quantize_per_tensor(torch::ones({3, 4}), 0.1, 0, torch::kQInt8);
     }},
    {"is on device meta",
     [] {
       return torch::empty({3, 4}, torch::device(torch::kMeta));
     }},
    {"is a constant zero",
     [] {
       return at::_efficientzerotensor({3, 4}, torch::kFloat);
     }},
};

TEST(TensorKinds, UnsupportedTensorOfOneRankIsUsageErrorOnEveryRank) {
  for (const int ranks : {1, 3}) {
    on_ranks(ranks, [](Context& context) {
      const std::string odd = std::to_string(context.size() - 1);
      const auto is_odd = context.rank() == context.size() - 1;
      for (const auto& [text, make] : kRefused) {
        SCOPED_TRACE(text);
        const at::Tensor plain = torch::full({3, 4}, context.rank() + 1.0);
        const at::Tensor tensor = is_odd ? make() : plain;
        const auto expected = "'x' was refused on rank " + odd + ": the tensor " + text;
        expect_usage_error(expected, [&] { kolo::allreduce_(context, tensor, kolo::ReduceOp::average, "x"); });
        expect_usage_error(expected, [&] { kolo::broadcast_(context, tensor, 0, "x"); });
        auto work = kolo::allreduce_async(context, tensor, kolo::ReduceOp::average, "x");
        expect_usage_error(expected, [&] { work.wait(); });
        expect_usage_error("broadcast_parameters was refused on rank " + odd + ": tensor 'w' " + text, [&] {
          kolo::broadcast_parameters(context, NamedTensors{{"first", plain}, {"w", tensor}});
        });
        EXPECT_TRUE(plain.eq(context.rank() + 1).all().item<bool>()) << "it has changed";
        kolo::allreduce_(context, plain, ReduceOp::max, "x");
        EXPECT_TRUE(plain.eq(context.size()).all().item<bool>());
      }
    });
  }
}

TEST(TensorKinds, TensorThatRequiresGradientIsUsageErrorUnlessGradientModeIsOff) {
  on_ranks(2, [](Context& context) {
    const at::Tensor leaf = torch::full({4}, context.rank() + 1.0).requires_grad_(true);
    const at::Tensor tensor = context.rank() == 1 ? leaf : leaf.detach();
    const std::string text =
        "'x' was refused on rank 1: the tensor requires a gradient, and kolo does not "
        "differentiate collectives; pass detach()";
    expect_usage_error(text, [&] { kolo::allreduce_(context, tensor, kolo::ReduceOp::average, "x"); });
    expect_usage_error(text, [&] { kolo::broadcast_(context, tensor, 0, "x"); });
    expect_usage_error(text, [&] { static_cast<void>(kolo::allgather(context, tensor.mul(1), "x")); });
    EXPECT_TRUE(leaf.detach().eq(context.rank() + 1).all().item<bool>());
    {
      const torch::NoGradGuard no_grad;
      EXPECT_EQ(kolo::allgather(context, tensor, "x").sum().item<float>(), 12);
      kolo::allreduce_(context, tensor.view({2, 2}), ReduceOp::sum, "x");
      EXPECT_TRUE(tensor.eq(3).all().item<bool>());
    }
    kolo::broadcast_parameters(context, NamedTensors{{"w", leaf}}, 1);
    EXPECT_TRUE(leaf.detach().eq(3).all().item<bool>());
    EXPECT_TRUE(leaf.requires_grad());
  });
}

TEST(Broadcast, InvalidRootOfOneRankIsUsageErrorOnEveryRank) {
  on_ranks(2, [](Context& context) {
    const int root = context.rank() == 1 ? 2 : 0;
    const at::Tensor w = torch::full({4}, context.rank() + 1.0).requires_grad_(true);
    torch::optim::SGD optimizer({w}, 0.1);
    const std::string text = "refused on rank 1: root 2 is not a rank of a world of 2";
    expect_usage_error(text, [&] { kolo::broadcast_(context, w.detach(), root, "x"); });
    expect_usage_error(text, [&] { kolo::broadcast_parameters(context, NamedTensors{{"w", w}}, root); });
    expect_usage_error(text, [&] { kolo::broadcast_optimizer_state(context, optimizer, root); });
    kolo::broadcast_parameters(context, NamedTensors{{"w", w}}, 1);
    EXPECT_TRUE(w.detach().eq(2).all().item<bool>());
  });
}

TEST(Allgather, EmptyDimensionsGiveShapesOfTorchCat) {
  on_ranks(3, [](Context& context) {
    const std::vector<std::vector<std::int64_t>> inner = {{0, 2}, {2, 0}, {0}, {0, 0}, {4}, {}};
    for (const auto& rest : inner) {
      for (const bool none : {false, true}) {
        const auto part = [&](int rank) {
          std::vector<std::int64_t> sizes{none ? 0 : rank + 1};
          sizes.insert(sizes.end(), rest.begin(), rest.end());
          return torch::full(sizes, rank);
        };
        const at::Tensor all = kolo::allgather(context, part(context.rank()), "g");
        EXPECT_EQ(all.sizes(), torch::cat({part(0), part(1), part(2)}).sizes());
      }
    }
    const at::Tensor uneven = kolo::allgather(context, torch::ones({context.rank() == 1 ? 2 : 0, 3}), "g");
    EXPECT_EQ(uneven.sizes(), (std::vector<std::int64_t>{2, 3}));
  });
}

TEST(TensorWork, SecondWaitDoesNotOverwriteTensor) {
  on_ranks(2, [](Context& context) {
    for (const at::Tensor& tensor :
         {torch::full({4}, 3.0), torch::_neg_view(torch::full({4}, -3.0)), torch::full({4, 2}, 3.0).select(1, 0)}) {
      kolo::TensorWork work = kolo::allreduce_async(context, tensor, kolo::ReduceOp::average, "x");
      work.wait();
      tensor.mul_(2);
      EXPECT_TRUE(work.wait().eq(6).all().item<bool>()) << tensor;
    }
  });
}

TEST(Allgather, ScalarsGiveOneElementPerRank) {
  on_ranks(3, [](Context& context) {
    const at::Tensor scalar = torch::tensor(context.rank() + 0.5F);
    EXPECT_TRUE(kolo::allgather(context, scalar, "g").equal(torch::tensor({0.5F, 1.5F, 2.5F})));
    EXPECT_TRUE(kolo::allgather(context, torch::_neg_view(scalar), "g").equal(torch::tensor({-0.5F, -1.5F, -2.5F})));
    kolo::allreduce_(context, scalar, ReduceOp::sum, "g");
    EXPECT_EQ(scalar.item<float>(), 4.5F);
  });
}

TEST(Allgather, ExpandedAndZeroTensorsAreGathered) {
  on_ranks(2, [](Context& context) {
    const at::Tensor row = torch::arange(3, torch::kFloat).add(context.rank()).view({1, 3});
    const at::Tensor all = kolo::allgather(context, row.expand({2, -1}), "g");
    EXPECT_TRUE(all.equal(torch::tensor({{0, 1, 2}, {0, 1, 2}, {1, 2, 3}, {1, 2, 3}}, torch::kFloat)));
    const at::Tensor zeros = kolo::allgather(context, at::_efficientzerotensor({2}, torch::kFloat), "g");
    EXPECT_TRUE(zeros.equal(torch::zeros({4})));
  });
}

TEST(VerifyModel, StridesOfSizeOneDimensionsAndEmptyTensorsAreIgnored) {
  on_ranks(2, [](Context& context) {
    const bool odd = context.rank() == 1;
    torch::nn::Conv2d model(torch::nn::Conv2dOptions(8, 8, 1));
    if (odd) model->weight.set_data(model->weight.detach().as_strided({8, 8, 1, 1}, {8, 1, 8, 8}));
    kolo::verify_model(context, *model);
    kolo::broadcast_parameters(context, *model);
    auto sgd = std::make_shared<torch::optim::SGD>(model->parameters(), 0.5);
    DistributedOptimizer optimizer(context, sgd, kolo::named_tensors(model->named_parameters()));
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      (model->weight.sum() * (context.rank() + step)).backward();
      optimizer.step();
      EXPECT_TRUE(model->weight.grad().eq(step + 0.5).all().item<bool>()) << step;
    }
    const at::Tensor dense = torch::ones({20}).as_strided({1, 4, 5}, {odd ? 20 : 1, 1, 4});
    EXPECT_TRUE(kolo::allreduce_(context, dense, ReduceOp::sum, "x").eq(2).all().item<bool>());
    const at::Tensor empty = torch::ones({0, 3}).as_strided({0, 3}, {odd ? 1 : 3, odd ? 7 : 1});
    kolo::allreduce_(context, empty, kolo::ReduceOp::average, "x");
    kolo::verify_model(context, NamedTensors{{"empty", empty}});
  });
}

TEST(GradientKinds, EveryKindIsReduced) {
  on_ranks(2, [](Context& context) {
    at::Tensor w = torch::zeros({4}).requires_grad_(true);
    auto sgd = std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{w}, 0.5);
    DistributedOptimizer optimizer(context, sgd, NamedTensors{{"w", w}});
    auto kinds = kKinds;
    kinds.emplace_back("expanded", [](double value) { return torch::full({1}, value).expand({4}); });
    for (const auto& [kind, make] : kinds) {
      SCOPED_TRACE(kind);
      for (const bool on_all : {false, true}) {
        w.mutable_grad() = on_all || context.rank() == 1 ? make(context.rank() + 1) : torch::ones({4});
        optimizer.step();
        EXPECT_TRUE(w.grad().eq(1.5).all().item<bool>()) << w.grad();
        optimizer.zero_grad();
      }
    }
    w.mutable_grad() = context.rank() == 1 ? at::_efficientzerotensor({4}, torch::kFloat) : torch::ones({4});
    optimizer.step();
    EXPECT_TRUE(w.grad().eq(0.5).all().item<bool>()) << w.grad();
  });
}

TEST(GradientKinds, UnsupportedParameterOfOneRankIsUsageErrorOnEveryRank) {
  on_ranks(2, [](Context& context) {
    const std::vector<std::pair<std::string, std::function<at::Tensor()>>> kinds = {
        {"is complex", [] { return torch::ones({4}, torch::kComplexFloat); }},
        {"has elements that overlap", [] { return torch::ones({1}).expand({4}); }}};
    for (const auto& [text, make] : kinds) {
      at::Tensor w = (context.rank() == 1 ? make() : torch::ones({4})).detach().requires_grad_(true);
      auto sgd = std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{w}, 0.5);
      expect_usage_error("refused on rank 1: parameter 'w' " + text, [&] {
        const DistributedOptimizer optimizer(context, sgd, NamedTensors{{"w", w}});
      });
    }
    at::Tensor w = torch::ones({4}).requires_grad_(true);
    auto sgd = std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{w}, 0.5);
    DistributedOptimizer optimizer(context, sgd, NamedTensors{{"w", w}});
    (w.sum() * (2 * context.rank())).backward();
    optimizer.step();
    EXPECT_TRUE(w.grad().eq(1).all().item<bool>());
  });
}

TEST(FusedSGD, UpdatesLazilyNegatedWeightsAndGradients) {
  on_ranks(2, [](Context& context) {
    at::Tensor w = torch::_neg_view(torch::full({4}, -1.0)).detach().requires_grad_(true);
    ASSERT_TRUE(w.is_neg());
    auto sgd =
        std::make_shared<kolo::FusedSGD>(std::vector<at::Tensor>{w}, torch::optim::SGDOptions(0.5).momentum(0.5));
    DistributedOptimizer optimizer(context, sgd, NamedTensors{{"w", w}});
    w.mutable_grad() = torch::_neg_view(torch::full({4}, -1.0 - context.rank()));
    optimizer.step();
    EXPECT_TRUE(w.detach().eq(0.25).all().item<bool>()) << w;
    at::Tensor alone = torch::ones({4}).requires_grad_(true);
    kolo::FusedSGD single({alone}, torch::optim::SGDOptions(0.5));
    alone.mutable_grad() = torch::_neg_view(torch::full({4}, -1.0));
    single.step();
    EXPECT_TRUE(alone.detach().eq(0.5).all().item<bool>()) << alone;
  });
}

TEST(FusedSGD, UnsupportedWeightIsUsageErrorBeforeAnyUpdate) {
  at::Tensor first = torch::ones({4}).requires_grad_(true);
  at::Tensor overlapping = torch::ones({1}).expand({4}).requires_grad_(true);
  at::Tensor frozen = inference({4}, 1);
  for (const auto& [second, text] : {std::pair(overlapping, "elements of parameter 1 of group 0 share memory"),
                                     std::pair(frozen, "parameter 1 of group 0 was created in InferenceMode")}) {
    kolo::FusedSGD optimizer({first, second}, torch::optim::SGDOptions(0.5));
    first.mutable_grad() = torch::ones({4});
    second.mutable_grad() = torch::ones({4});
    expect_usage_error(text, [&] { optimizer.step(); });
    EXPECT_TRUE(first.detach().eq(1).all().item<bool>());
    EXPECT_TRUE(second.detach().eq(1).all().item<bool>());
  }
}

TEST(GradScaler, UnscalesEveryKindAndRefusesBeforeAnyChange) {
  on_ranks(1, [](Context& context) {
    for (const auto& [kind, make] : kKinds) {
      SCOPED_TRACE(kind);
      at::Tensor w = torch::ones({4}).requires_grad_(true);
      torch::optim::SGD sgd({w}, 1.0);
      kolo::GradScaler scaler(context, {.init_scale = 4});
      w.mutable_grad() = make(8);
      scaler.unscale_(sgd);
      EXPECT_TRUE(w.grad().eq(2).all().item<bool>()) << w.grad();
    }
    at::Tensor first = torch::ones({4}).requires_grad_(true);
    at::Tensor second = torch::ones({4}).requires_grad_(true);
    torch::optim::SGD sgd({first, second}, 1.0);
    kolo::GradScaler scaler(context, {.init_scale = 4});
    first.mutable_grad() = torch::full({4}, 8.0);
    second.mutable_grad() = torch::full({1}, 8.0).expand({4});
    expect_usage_error("the gradient of parameter 2 has elements that overlap", [&] { scaler.unscale_(sgd); });
    EXPECT_TRUE(first.grad().eq(8).all().item<bool>());
  });
}

TEST(NormalizeImages, LazilyNegatedBytesAreNormalizedAsTheirValues) {
  on_ranks(1, [](Context& context) {
    const at::Tensor bytes = torch::randint(0, 256, {2, 3, 4, 4}, torch::kByte);
    const at::Tensor expected = kolo::normalize_images(context, torch::_neg_view(bytes).clone());
    EXPECT_TRUE(kolo::normalize_images(context, torch::_neg_view(bytes)).equal(expected));
    expect_usage_error("images must be dense",
                       [&] { static_cast<void>(kolo::normalize_images(context, bytes.to_sparse())); });
  });
}

}  // namespace
