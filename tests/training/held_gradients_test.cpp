// Gradients that the program holds too and clears itself, in place of param.grad(). The oracle is the same program in
// plain LibTorch, with the mean of the ranks' gradients.
#include <ATen/ops/_foreach_zero.h>
#include <ATen/ops/from_blob.h>
#include <gmock/gmock.h>
#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kolo/context.h"
#include "kolo/error.h"
#include "kolo/torch/torch.h"
#include "support/local_ranks.h"
#include "training/one_weight.h"

namespace kolo::test {
namespace {

using testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;
using Clear = std::function<void()>;

constexpr int kSteps = 5;

// Gradients are small integers and rates are powers of two: every number is exact.
struct Model {
  [[nodiscard]] NamedTensors names() const { return {{"a", weights[0]}, {"b", weights[1]}, {"c", weights[2]}}; }
  // The gradient of weight i is (i + 1) * x. At odd steps nothing reaches weight 2.
  void backward(int step, double x) const {
    at::Tensor loss = torch::zeros({});
    for (std::size_t i = 0; i < (step % 2 == 0 ? 3 : 2); ++i) {
      loss = loss + (weights[i] * torch::full(weights[i].sizes(), (static_cast<double>(i) + 1) * x)).sum();
    }
    loss.backward();
  }
  Tensors weights{torch::ones({2, 3}).requires_grad_(), torch::ones({5}).requires_grad_(),
                  torch::ones({4, 2}).requires_grad_()};
  std::shared_ptr<FusedSGD> sgd = std::make_shared<FusedSGD>(weights, torch::optim::SGDOptions(0.125).momentum(0.5));
};

// Views of `flat`, one for each weight.
Tensors pieces(const Tensors& weights, const at::Tensor& flat) {
  Tensors result;
  std::int64_t offset = 0;
  for (const at::Tensor& weight : weights) {
    result.push_back(flat.narrow(0, offset, weight.numel()).view(weight.sizes()));
    offset += weight.numel();
  }
  return result;
}

Clear assign(const Tensors& weights, const Tensors& gradients, Clear clear) {
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i].mutable_grad() = gradients[i];
  return clear;
}

Clear zeroes(Tensors tensors) {
  return [tensors = std::move(tensors)] {
    for (const at::Tensor& tensor : tensors) tensor.zero_();
  };
}

// Takes something of param.grad() of each weight, once it is there, and clears that.
Clear takes(const Tensors& weights, const std::function<at::Tensor(const at::Tensor&)>& take) {
  Tensors taken;
  for (const at::Tensor& weight : weights) taken.push_back(take(weight.mutable_grad()));
  return zeroes(taken);
}

enum class When { before_wrapping, after_wrapping, after_backward, after_step };
struct Buffers {
  const char* name;
  When when;
  std::function<Clear(const Tensors&)> make;
};

std::vector<Buffers> all_buffers() {
  std::vector<Buffers> all;
  const auto add = [&](const char* name, std::initializer_list<When> times, std::function<Clear(const Tensors&)> make) {
    for (const When when : times) all.push_back({name, when, make});
  };
  const auto early = {When::before_wrapping, When::after_wrapping};
  const auto late = {When::after_backward, When::after_step};
  add("views of a flat tensor", early, [](const Tensors& weights) {
    const at::Tensor flat = torch::zeros({19});
    return assign(weights, pieces(weights, flat), zeroes({flat}));
  });
  add("detached views of a flat tensor", early, [](const Tensors& weights) {
    const at::Tensor flat = torch::zeros({19});
    Tensors views = pieces(weights, flat);
    for (at::Tensor& view : views) view = view.detach();
    return assign(weights, views, zeroes({flat}));
  });
  add("views of the data of a flat tensor", early, [](const Tensors& weights) {
    const at::Tensor flat = torch::zeros({19});
    Tensors views = pieces(weights, flat);
    for (at::Tensor& view : views) view = view.data();
    return assign(weights, views, zeroes({flat}));
  });
  add("memory of the program", early, [](const Tensors& weights) {
    const auto memory = std::make_shared<std::vector<float>>(19);
    Tensors views;
    std::size_t offset = 0;
    for (const at::Tensor& weight : weights) {
      views.push_back(at::from_blob(memory->data() + offset, weight.sizes(), torch::kFloat32));
      offset += static_cast<std::size_t>(weight.numel());
    }
    return assign(weights, views, [memory] { std::memset(memory->data(), 0, memory->size() * sizeof(float)); });
  });
  add("a tensor for each", early, [](const Tensors& weights) {
    Tensors own;
    for (const at::Tensor& weight : weights) own.push_back(torch::zeros(weight.sizes()));
    return assign(weights, own, [own] { at::_foreach_zero_(own); });
  });
  add("a tensor for each, not dense", early, [](const Tensors& weights) {
    Tensors whole, every_other;
    for (const at::Tensor& weight : weights) {
      std::vector<std::int64_t> sizes = weight.sizes().vec();
      sizes.push_back(2);
      whole.push_back(torch::zeros(sizes));
      every_other.push_back(whole.back().select(-1, 1));
    }
    return assign(weights, every_other, zeroes(whole));
  });
  add("a flat tensor for two of them", early, [](const Tensors& weights) {
    const Tensors some(weights.begin() + 1, weights.end());
    const at::Tensor flat = torch::zeros({13});
    const Clear clear = zeroes({flat});
    return assign(some, pieces(some, flat), [=, first = weights[0]] {
      clear();
      first.mutable_grad().reset();
    });
  });
  add("kept gradients", late,
      [](const Tensors& weights) { return takes(weights, [](const at::Tensor& grad) { return grad; }); });
  add("kept gradients, detached", late,
      [](const Tensors& weights) { return takes(weights, [](const at::Tensor& grad) { return grad.detach(); }); });
  add("the data of kept gradients", late,
      [](const Tensors& weights) { return takes(weights, [](const at::Tensor& grad) { return grad.data(); }); });
  add("views of kept gradients", late,
      [](const Tensors& weights) { return takes(weights, [](const at::Tensor& grad) { return grad.view(-1); }); });
  return all;
}

// Calls step() after each backward pass, and clears by what the program has made, or by `zero_grad` until then.
void train(const Model& model, const Buffers& buffers, double x, int passes, const std::function<void(int)>& step,
           Clear clear) {
  for (int i = 0; i < kSteps; ++i) {
    if (i > 0) clear();
    for (int pass = 0; pass < passes; ++pass) model.backward(i, x);
    if (i == 0 && buffers.when == When::after_backward) clear = buffers.make(model.weights);
    step(i);
    if (i == 0 && buffers.when == When::after_step) clear = buffers.make(model.weights);
  }
}

Tensors train_alone(const Buffers& buffers, double x, int passes) {
  const Model model;
  const Clear clear = buffers.when <= When::after_wrapping ? buffers.make(model.weights) : Clear();
  train(
      model, buffers, x, passes, [&](int) { model.sgd->step(); }, clear);
  return model.weights;
}

void expect_equal(const Tensors& weights, const Tensors& wanted) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    EXPECT_TRUE(weights[i].equal(wanted[i]))
        << "weight " << i << " is " << weights[i].detach() << " not " << wanted[i].detach();
  }
}

std::vector<DistributedOptions> all_options() {
  return {{.op = ReduceOp::average},
          {.bucket_bytes = 32, .shared_gradients = true, .shared_from = 1},
          {.bucket_bytes = 32, .overlap_update = true},
          {.prescale = 0.5, .postscale = 2},
          {.passes_per_step = 2}};
}

// If the memory into which autograd adds is not cleared, weights are wrong from the second step on.
TEST(HeldGradients, WeightsEqualPlainLibTorchWhenProgramClearsGradients) {
  for (const int ranks : {1, 2, 3}) {
    for (const auto& options : all_options()) {
      for (const Buffers& buffers : all_buffers()) {
        const Tensors wanted = train_alone(buffers, (ranks + 1) / 2.0, options.passes_per_step);
        on_ranks(ranks, [&](Context& context) {
          SCOPED_TRACE(std::string(buffers.name) + ", made at moment " +
                       std::to_string(static_cast<int>(buffers.when)) + ", ranks " + std::to_string(ranks));
          const Model model;
          Clear clear = buffers.when == When::before_wrapping ? buffers.make(model.weights) : Clear();
          DistributedOptimizer optimizer(context, model.sgd, model.names(), options);
          if (buffers.when == When::after_wrapping) clear = buffers.make(model.weights);
          train(
              model, buffers, context.rank() + 1, options.passes_per_step, [&](int) { optimizer.step(); }, clear);
          expect_equal(model.weights, wanted);
        });
      }
    }
  }
}

TEST(HeldGradients, TensorsOfProgramGetReducedValues) {
  for (const bool clips : {false, true}) {
    on_ranks(2, [&](Context& context) {
      const Model model;
      const at::Tensor flat = torch::zeros({19});
      const Tensors views = pieces(model.weights, flat);
      assign(model.weights, views, {});
      DistributedOptimizer optimizer(context, model.sgd, model.names());
      for (int step = 0; step < kSteps; ++step) {
        flat.zero_();
        model.backward(0, context.rank() + 1);
        if (clips) {
          optimizer.synchronize();
          flat.mul_(2);
        }
        optimizer.step();
        for (std::size_t i = 0; i < views.size(); ++i) EXPECT_TRUE(model.weights[i].grad().is_same(views[i]));
        EXPECT_EQ(flat[0].item<double>(), clips ? 3 : 1.5);
        EXPECT_EQ(flat[18].item<double>(), clips ? 9 : 4.5);
      }
    });
  }
}

// Several buffers of one storage; the order of the two steps alternates.
TEST(HeldGradients, SeveralOptimizersReduceViewsOfOneFlatTensor) {
  on_ranks(2, [](Context& context) {
    const Model model, other;
    const at::Tensor flat = torch::zeros({38});
    assign(model.weights, pieces(model.weights, flat), {});
    assign(other.weights, pieces(other.weights, flat.narrow(0, 19, 19)), {});
    DistributedOptimizer one(context, model.sgd, model.names()), two(context, other.sgd, other.names());
    for (int step = 0; step < kSteps; ++step) {
      flat.zero_();
      model.backward(step, context.rank() + 1);
      other.backward(step, context.rank() + 1);
      (step % 2 == 0 ? one : two).step();
      (step % 2 == 0 ? two : one).step();
    }
    const Model wanted;
    for (int step = 0; step < kSteps; ++step) {
      wanted.sgd->zero_grad(false);
      wanted.backward(step, 1.5);
      wanted.sgd->step();
    }
    expect_equal(model.weights, wanted.weights);
    expect_equal(other.weights, wanted.weights);
  });
}

TEST(HeldGradients, RankWithoutBatchGetsReducedValues) {
  on_ranks(2, [](Context& context) {
    const Model model;
    const at::Tensor flat = torch::zeros({19});
    const Tensors views = pieces(model.weights, flat);
    assign(model.weights, views, {});
    DistributedOptimizer optimizer(context, model.sgd, model.names());
    for (int step = 0; step < kSteps; ++step) {
      if (step % 2 == 0) flat.zero_();
      if (context.rank() == 0 || step % 2 == 1) model.backward(0, 2);
      optimizer.step();
      EXPECT_TRUE(model.weights[0].grad().is_same(views[0]));
      EXPECT_EQ(flat[0].item<double>(), step % 2 == 0 ? 1 : 3);
    }
  });
}

// Each parameter's result would be written over the other's.
TEST(HeldGradients, OverlappingGradientsAreUsageErrorThatNamesBoth) {
  for (const bool one_tensor : {true, false}) {
    for (const bool no_sync : {true, false}) {
      on_ranks(2, [&](Context& context) {
        const at::Tensor a = torch::ones({4}).requires_grad_(), b = torch::ones({4}).requires_grad_();
        const at::Tensor buffer = torch::zeros({6});
        a.mutable_grad() = buffer.narrow(0, 0, 4);
        b.mutable_grad() = one_tensor ? a.grad() : buffer.narrow(0, 2, 4);
        auto sgd = std::make_shared<FusedSGD>(Tensors{a, b}, torch::optim::SGDOptions(0.125));
        DistributedOptimizer optimizer(context, sgd, NamedTensors{{"a", a}, {"b", b}});
        const auto step = [&] {
          std::optional<DistributedOptimizer::NoSync> guard;
          if (no_sync) guard.emplace(optimizer);
          (a + 2 * b).sum().backward();
          guard.reset();
          optimizer.step();
        };
        const auto told = error_of<UsageError>(step);
        EXPECT_THAT(told, HasSubstr("the gradients of 'a' and 'b' overlap"));
        EXPECT_THAT(told, HasSubstr("clone()"));
        EXPECT_TRUE(a.eq(1).all().item<bool>());
      });
    }
  }
}

// One weight, of zeros, whose gradient the program owns.
struct Owned {
  Owned(Context& context, const at::Tensor& gradient)
      : weight(torch::zeros({4}).requires_grad_()),
        optimizer(context, std::make_shared<FusedSGD>(Tensors{weight}, torch::optim::SGDOptions(0.5)),
                  NamedTensors{{"weight", weight}}) {
    weight.mutable_grad() = gradient;
  }
  at::Tensor weight;
  DistributedOptimizer optimizer;
};

// No backward pass runs, and no version counter moves.
TEST(HeldGradients, ValuesWrittenWithoutAutogradAreReduced) {
  const std::vector<std::function<void(const at::Tensor&, float)>> writes = {
      [](const at::Tensor& to, float value) { std::fill_n(to.mutable_data_ptr<float>(), to.numel(), value); },
      [](const at::Tensor& to, float value) { to.data().fill_(value); }};
  for (const auto& write : writes) {
    on_ranks(2, [&](Context& context) {
      const at::Tensor buffer = torch::zeros({4});
      Owned owned(context, buffer);
      for (int step = 0; step < 4; ++step) {
        write(buffer, static_cast<float>(context.rank() + step));
        owned.optimizer.step();
        EXPECT_TRUE(buffer.eq(step + 0.5).all().item<bool>()) << step << ": " << buffer;
      }
    });
  }
}

// The gradient is zero but for one element, and its version counter is that of the whole buffer.
TEST(HeldGradients, ChangeThroughBufferAfterBackwardIsUsageError) {
  const std::vector<std::pair<at::Tensor, std::function<at::Tensor(const at::Tensor&)>>> buffers = {
      {torch::zeros({9}), [](const at::Tensor& flat) { return flat.narrow(0, 3, 4); }},
      {torch::zeros({4, 2}), [](const at::Tensor& wide) { return wide.select(1, 0); }}};
  for (const auto& [zeros, part] : buffers) {
    on_ranks(2, [&, &zeros = zeros, &part = part](Context& context) {
      const at::Tensor buffer = zeros.clone();
      Owned owned(context, part(buffer));
      (owned.weight.narrow(0, 2, 1) * (context.rank() + 1)).sum().backward();
      buffer.mul_(0.5);
      EXPECT_THAT(error_of<UsageError>([&] { owned.optimizer.step(); }), HasSubstr("'weight' was changed after"));
    });
  }
}

TEST(HeldGradients, ExpandedGradientIsReplacedByResult) {
  on_ranks(2, [](Context& context) {
    const at::Tensor expanded = torch::full({1}, context.rank() + 1.0F).expand({4});
    Owned owned(context, expanded);
    owned.optimizer.step();
    EXPECT_TRUE(owned.weight.grad().eq(1.5).all().item<bool>());
    EXPECT_TRUE(owned.weight.detach().eq(-0.75).all().item<bool>());
    owned.optimizer.zero_grad();
    (owned.weight * context.rank()).sum().backward();
    owned.optimizer.step();
    EXPECT_TRUE(owned.weight.detach().eq(-1).all().item<bool>());
  });
}

// The extents of the columns overlap, but no element is in two columns.
TEST(HeldGradients, ColumnsOfOneMatrixGetReducedValues) {
  on_ranks(2, [](Context& context) {
    const at::Tensor matrix = torch::zeros({4, 3});
    Tensors weights;
    NamedTensors names;
    for (int i = 0; i < 3; ++i) {
      weights.push_back(torch::zeros({4}).requires_grad_());
      weights.back().mutable_grad() = matrix.select(1, i);
      names.emplace_back(std::to_string(i), weights.back());
    }
    auto sgd = std::make_shared<FusedSGD>(weights, torch::optim::SGDOptions(0.5));
    DistributedOptimizer optimizer(context, sgd, names);
    for (int step = 0; step < 3; ++step) {
      matrix.zero_();
      at::Tensor loss = torch::zeros({});
      for (int i = 0; i < 3; ++i) loss = loss + (weights[static_cast<std::size_t>(i)] * (i + context.rank())).sum();
      loss.backward();
      optimizer.step();
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(matrix.select(1, i).eq(i + 0.5).all().item<bool>()) << matrix;
    }
  });
}

// With a prescale, one rank packs its gradients during backward, as several ranks do.
TEST(AutogradGradients, ReplacementBeforeStepIsUsageErrorWithOneRankAndPrescale) {
  on_ranks(1, [](Context& context) {
    const at::Tensor weight = torch::zeros({4}).requires_grad_();
    auto sgd = std::make_shared<FusedSGD>(Tensors{weight}, torch::optim::SGDOptions(0.5));
    DistributedOptimizer optimizer(context, sgd, NamedTensors{{"weight", weight}}, {.prescale = 0.5});
    for (int step = 1; step < 4; ++step) {
      optimizer.zero_grad();
      (weight * 2).sum().backward();
      optimizer.step();
      EXPECT_TRUE(weight.detach().eq(-0.5 * step).all().item<bool>()) << weight;
    }
    (weight * 2).sum().backward();
    weight.mutable_grad() = weight.grad() * 0.5;
    EXPECT_THAT(error_of<UsageError>([&] { optimizer.step(); }), HasSubstr("'weight' was changed after"));
  });
}

TEST(AutogradGradients, ReplacementBeforeStepIsUsedWithOneRank) {
  on_ranks(1, [](Context& context) {
    Owned owned(context, {});
    (owned.weight * 2).sum().backward();
    owned.weight.mutable_grad() = owned.weight.grad() * 0.5;
    owned.optimizer.step();
    EXPECT_TRUE(owned.weight.detach().eq(-0.5).all().item<bool>()) << owned.weight;
  });
}

// Autograd made them, and the program does not hold them.
TEST(AutogradGradients, GradMovesToReducedMemory) {
  on_ranks(2, [](Context& context) {
    const at::Tensor a = torch::ones({4}).requires_grad_(), b = torch::ones({4}).requires_grad_();
    auto sgd = std::make_shared<FusedSGD>(Tensors{a, b}, torch::optim::SGDOptions(0.125));
    DistributedOptimizer optimizer(context, sgd, NamedTensors{{"a", a}, {"b", b}});
    for (int step = 0; step < 6; ++step) {
      optimizer.zero_grad(step < 3);
      // Concatenated or not: cut out of one storage, or each alone.
      const at::Tensor loss = step % 2 == 0 ? (torch::cat({a, b}) * (context.rank() + 1)).sum()
                                            : ((a + b) * torch::full({4}, context.rank() + 1.0)).sum();
      loss.backward();
      const void* const made = a.grad().const_data_ptr();
      optimizer.step();
      EXPECT_NE(a.grad().const_data_ptr(), made) << step;
      EXPECT_TRUE(a.grad().eq(1.5).all().item<bool>() && b.grad().eq(1.5).all().item<bool>());
    }
  });
}

// With one rank, only gradients that overlap are copied.
TEST(AutogradGradients, GradKeepsItsMemoryWithOneRank) {
  on_ranks(1, [](Context& context) {
    const at::Tensor a = torch::ones({4}).requires_grad_(), b = torch::ones({4}).requires_grad_();
    auto sgd = std::make_shared<FusedSGD>(Tensors{a, b}, torch::optim::SGDOptions(0.125));
    DistributedOptimizer optimizer(context, sgd, NamedTensors{{"a", a}, {"b", b}});
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      (torch::cat({a, b}) * 2).sum().backward();
      const void* const made = a.grad().const_data_ptr();
      const void* const other = b.grad().const_data_ptr();
      optimizer.step();
      EXPECT_EQ(a.grad().const_data_ptr(), made);
      EXPECT_EQ(b.grad().const_data_ptr(), other);
    }
  });
}

}  // namespace
}  // namespace kolo::test
