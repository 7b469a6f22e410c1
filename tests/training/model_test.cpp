// What the binding does between ranks: same start, named tensors, and gradients that differ from rank to rank.
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include "kolo/context.h"
#include "kolo/error.h"
#include "kolo/spi/gradient_reducer.h"
#include "kolo/torch/torch.h"
#include "support/local_ranks.h"

namespace {

using kolo::Context;
using kolo::DistributedOptimizer;
using kolo::NamedTensors;
using kolo::test::on_ranks;
using testing::HasSubstr;

at::Tensor filled(std::vector<std::int64_t> sizes, double value) { return torch::full(sizes, value, torch::kFloat64); }

at::Tensor weight(std::vector<std::int64_t> sizes = {3}) { return filled(std::move(sizes), 1).requires_grad_(true); }

std::shared_ptr<torch::optim::SGD> sgd(std::vector<at::Tensor> tensors) {
  return std::make_shared<torch::optim::SGD>(std::move(tensors), torch::optim::SGDOptions(0.5));
}

TEST(BroadcastParameters, CopiesParametersAndBuffersOfRoot) {
  on_ranks(3, [](Context& context) {
    torch::nn::Sequential model(torch::nn::Linear(4, 5), torch::nn::BatchNorm1d(5));
    const torch::NoGradGuard no_grad;
    for (auto& [name, tensor] : kolo::model_tensors(*model)) at::Tensor(tensor).fill_(context.rank() + 1);
    kolo::broadcast_parameters(context, *model, 2);
    for (auto& [name, tensor] : kolo::model_tensors(*model)) EXPECT_TRUE(tensor.eq(3).all().item<bool>()) << name;
  });
}

TEST(BroadcastParameters, WritesOnlyElementsOfStridedView) {
  on_ranks(2, [](Context& context) {
    const at::Tensor whole = filled({4, 4}, context.rank());
    kolo::broadcast_parameters(context, NamedTensors{{"column", whole.select(1, 2)}}, 1);
    EXPECT_DOUBLE_EQ(whole.sum().item<double>(), context.rank() == 0 ? 4 : 16);
  });
}

TEST(VerifyModel, FirstDifferenceIsMismatchErrorOnEveryRank) {
  on_ranks(3, [](Context& context) {
    const auto odd = [&](auto one, auto other) { return context.rank() == 2 ? other : one; };
    const std::vector<std::pair<NamedTensors, std::string>> cases = {
        {{{"a", filled({2}, 0)}, {"b", filled(odd(std::vector<std::int64_t>{3}, std::vector<std::int64_t>{4}), 0)}},
         "'b'"},
        {{{odd("c", "d"), filled({2}, 0)}}, "'d'"},
        {{{"e", filled({2}, 0).to(odd(torch::kFloat32, torch::kFloat64))}}, "Double"},
        {{{"f", odd(filled({2, 3}, 0), filled({3, 2}, 0).t())}}, "strides"},
        {{{"undefined", odd(filled({1}, 0), at::Tensor())}}, "'undefined' as undefined"},
        {odd(NamedTensors{{"g", filled({1}, 0)}}, NamedTensors{}), "no such tensor"}};
    for (const auto& [tensors, expected] : cases) {
      try {
        kolo::verify_model(context, tensors);
        ADD_FAILURE() << "no MismatchError: " << expected;
      } catch (const kolo::MismatchError& error) {
        EXPECT_THAT(error.what(), HasSubstr(expected));
        EXPECT_THAT(error.what(), HasSubstr("rank 2"));
      }
    }
    kolo::verify_model(context, NamedTensors{{"same", filled({2}, context.rank())}});
  });
}

TEST(BroadcastParameters, UndefinedTensorIsUsageErrorOnAllRanks) {
  on_ranks(2, [](Context& context) {
    const NamedTensors tensors{{"nothing", at::Tensor()}};
    kolo::verify_model(context, tensors);
    EXPECT_THROW(kolo::broadcast_parameters(context, tensors), kolo::UsageError);
  });
}

template <class Optimizer, class Options>
void expect_state_travels(Options options) {
  on_ranks(2, [&](Context& context) {
    at::Tensor w = weight({5});
    Optimizer optimizer({w}, options);
    const auto train = [&](int steps) {
      for (int i = 0; i < steps; ++i) {
        w.mutable_grad() = filled({5}, i + 1);
        optimizer.step();
      }
    };
    if (context.rank() == 0) {
      train(3);
      optimizer.param_groups()[0].options().set_lr(0.03125);
    }
    const at::Tensor before = w.detach().clone();
    kolo::broadcast_optimizer_state(context, optimizer, 0);
    EXPECT_TRUE(torch::equal(w, before)) << "weights were touched";
    EXPECT_DOUBLE_EQ(optimizer.param_groups()[0].options().get_lr(), 0.03125);
    kolo::broadcast_parameters(context, NamedTensors{{"w", w}});
    train(2);  // the same from here on only if momenta and step counts are
    const at::Tensor mine = w.detach().clone();
    kolo::broadcast_parameters(context, NamedTensors{{"w", w}});
    EXPECT_TRUE(torch::equal(w, mine));
  });
}

TEST(BroadcastOptimizerState, CopiesStateAndOptionsOfEveryOptimizer) {
  expect_state_travels<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9));
  expect_state_travels<kolo::FusedSGD>(torch::optim::SGDOptions(0.1).momentum(0.9));
  expect_state_travels<torch::optim::Adam>(torch::optim::AdamOptions(0.1).amsgrad(true));
  expect_state_travels<torch::optim::AdamW>(torch::optim::AdamWOptions(0.1));
  expect_state_travels<torch::optim::RMSprop>(torch::optim::RMSpropOptions(0.1).momentum(0.5));
  expect_state_travels<torch::optim::Adagrad>(torch::optim::AdagradOptions(0.1));
}

TEST(BroadcastOptimizerState, DifferentOptimizersAreMismatchErrorOnEveryRank) {
  on_ranks(2, [](Context& context) {
    auto optimizer = context.rank() == 0 ? sgd({weight()}) : sgd({weight(), weight()});
    EXPECT_THROW(kolo::broadcast_optimizer_state(context, *optimizer), kolo::MismatchError);
  });
}

class CannotBeSaved final : public torch::optim::SGD {
 public:
  using SGD::SGD;
  void save(torch::serialize::OutputArchive& /*archive*/) const override { throw std::runtime_error("disk of glass"); }
};

TEST(BroadcastOptimizerState, SaveErrorOfRootIsMismatchErrorOnEveryRank) {
  on_ranks(3, [](Context& context) {
    CannotBeSaved optimizer({weight()}, torch::optim::SGDOptions(0.1));
    try {
      kolo::broadcast_optimizer_state(context, optimizer, 1);
      ADD_FAILURE() << "no error";
    } catch (const kolo::MismatchError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 1 could not save its optimizer state: disk of glass"));
    }
  });
}

class CannotBeLoaded final : public torch::optim::SGD {
 public:
  CannotBeLoaded(const at::Tensor& parameter, bool fails)
      : SGD({parameter}, torch::optim::SGDOptions(0.1).momentum(0.5)), fails_(fails) {}
  void load(torch::serialize::InputArchive& archive) override {
    SGD::load(archive);
    if (fails_) throw std::runtime_error("no such shelf");
  }

 private:
  bool fails_;
};

TEST(BroadcastOptimizerState, LoadErrorOfOneRankLeavesAllOptimizersUnchanged) {
  on_ranks(3, [](Context& context) {
    const at::Tensor w = weight();
    CannotBeLoaded optimizer(w, context.rank() == 2);
    optimizer.param_groups()[0].options().set_lr(0.125 * (context.rank() + 1));
    w.mutable_grad() = at::full_like(w, context.rank() + 1);
    optimizer.step();
    try {
      kolo::broadcast_optimizer_state(context, optimizer, 0);
      ADD_FAILURE() << "no error";
    } catch (const kolo::MismatchError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 2 could not load the optimizer state of rank 0: no such shelf"));
    }
    EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.125 * (context.rank() + 1));
    const auto& kept = dynamic_cast<const torch::optim::SGDParamState&>(*optimizer.state().begin()->second);
    EXPECT_TRUE(kept.momentum_buffer().equal(at::full_like(w, context.rank() + 1)));
  });
}

TEST(GradientReducer, MissingGradientsCountAsZeros) {
  on_ranks(2, [](Context& context) {
    at::Tensor a = weight();
    at::Tensor b = weight();
    at::Tensor c = weight();
    DistributedOptimizer optimizer(context, sgd({a, b, c}), NamedTensors{{"a", a}, {"b", b}, {"c", c}});
    for (int step = 0; step < 6; ++step) {
      const bool uneven = step % 2 == 1;
      optimizer.zero_grad();
      at::Tensor loss = a.sum() * (context.rank() + 1);
      if (!uneven || context.rank() == 1) loss = loss + b.sum() * 4;
      loss.backward();
      optimizer.synchronize();
      EXPECT_TRUE(a.grad().eq(1.5).all().item<bool>()) << step;
      EXPECT_TRUE(b.grad().eq(uneven ? 2 : 4).all().item<bool>()) << step;
      EXPECT_FALSE(c.grad().defined()) << step;
      optimizer.step();
    }
  });
}

TEST(GradientReducer, SumIsMultipliedByPrescaleAndPostscale) {
  on_ranks(3, [](Context& context) {
    at::Tensor a = weight();
    kolo::DistributedOptions options{.op = kolo::ReduceOp::sum, .prescale = 0.5, .postscale = 4};
    DistributedOptimizer optimizer(context, sgd({a}), NamedTensors{{"a", a}}, options);
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      (a * (context.rank() + 1)).sum().backward();
      optimizer.step();
      EXPECT_TRUE(a.grad().eq(12).all().item<bool>());
    }
  });
}

TEST(GradientReducer, ParametersFrozenUnfrozenOrAddedOnAllRanksAreReduced) {
  on_ranks(2, [](Context& context) {
    at::Tensor a = weight();
    at::Tensor b = weight();
    DistributedOptimizer optimizer(context, sgd({a, b}), NamedTensors{{"a", a}, {"b", b}});
    at::Tensor c = weight({2, 2});
    for (int step = 0; step < 9; ++step) {
      if (step == 3) b.requires_grad_(false);
      if (step == 6) b.requires_grad_(true);
      if (step == 7)
        optimizer.add_param_group(torch::optim::OptimizerParamGroup(std::vector<at::Tensor>{c}), {{"c", c}});
      optimizer.zero_grad();
      ((a.sum() + b.sum() + c.sum()) * (2 * context.rank())).backward();
      optimizer.step();
      EXPECT_TRUE(a.grad().eq(1).all().item<bool>()) << step;
      EXPECT_EQ(b.grad().defined(), step < 3 || step >= 6) << step;
      EXPECT_TRUE(!b.grad().defined() || b.grad().eq(1).all().item<bool>()) << step;
      EXPECT_TRUE(step < 7 || c.grad().eq(1).all().item<bool>()) << step;
      if (step < 7) c.mutable_grad() = at::Tensor();
    }
  });
}

// If only one rank adds the parameter, all ranks throw in that step; its round does not match the next round of the
// others.
TEST(GradientReducer, ParameterAddedAfterBackwardIsReducedOnAllRanks) {
  for (const bool on_one : {false, true}) {
    on_ranks(2, [&](Context& context) {
      at::Tensor a = weight();
      at::Tensor late = weight();
      DistributedOptimizer optimizer(context, sgd({a}), NamedTensors{{"a", a}});
      for (int step = 0; step < 6; ++step) {
        optimizer.zero_grad();
        ((a.sum() + (step < 3 ? 0 : 1) * late.sum()) * (10 * step + context.rank())).backward();
        const auto join = [&] {
          optimizer.add_param_group(torch::optim::OptimizerParamGroup(std::vector<at::Tensor>{late}), {{"late", late}});
        };
        const bool last = context.rank() == 1;
        if (step == 3 && (last || !on_one)) join();
        if (step == 3 && on_one) {
          const at::Tensor before = a.detach().clone();
          try {
            optimizer.step();
            ADD_FAILURE() << "no error";
          } catch (const kolo::MismatchError& error) {
            EXPECT_THAT(error.what(), HasSubstr("'late', which was added after the first gradient"));
            EXPECT_THAT(error.what(), HasSubstr("2 parameter groups"));
          }
          EXPECT_TRUE(a.equal(before));
          if (!last) join();
          continue;
        }
        optimizer.step();
        EXPECT_TRUE(a.grad().eq(10 * step + 0.5).all().item<bool>()) << step << ": " << a.grad();
        EXPECT_TRUE(step < 3 || late.grad().eq(10 * step + 0.5).all().item<bool>()) << step << ": " << late.grad();
      }
    });
  }
}

TEST(GradientReducer, OneRankKeepsItsGradientsWithoutCopy) {
  on_ranks(1, [](Context& context) {
    at::Tensor a = weight({300});
    DistributedOptimizer optimizer(context, sgd({a}), NamedTensors{{"a", a}});
    for (int step = 0; step < 4; ++step) {
      if (step % 2 == 1) optimizer.zero_grad(false);
      const auto before = context.counters();
      (a.sum() * (step + 1)).backward();
      const at::Tensor own = a.grad();
      optimizer.step();
      EXPECT_TRUE(a.grad().is_same(own));
      EXPECT_EQ(context.counters()["bytes_copied"], before.at("bytes_copied"));
      EXPECT_TRUE(own.eq(step + 1).all().item<bool>()) << step << ": " << own;
      if (step % 2 == 1) optimizer.zero_grad();
    }
  });
}

// Reduced gradients share no memory: clipping one does not change another.
TEST(GradientReducer, GradientsThatShareMemoryAreSeparated) {
  for (const int ranks : {1, 2}) {
    on_ranks(ranks, [](Context& context) {
      at::Tensor a = weight({6});
      at::Tensor b = weight({6});
      at::Tensor c = weight({2, 3});
      DistributedOptimizer optimizer(context, sgd({a, b, c}), NamedTensors{{"a", a}, {"b", b}, {"c", c}});
      const auto clip_one = [&] {
        optimizer.synchronize();
        a.mutable_grad().mul_(0.5);
        for (const at::Tensor& other : {b, c}) EXPECT_TRUE(other.grad().eq(1).all().item<bool>()) << other.grad();
        EXPECT_TRUE(a.grad().eq(0.5).all().item<bool>());
        optimizer.step();
        optimizer.zero_grad(false);
        optimizer.zero_grad();
      };
      for (int step = 0; step < 3; ++step) {
        (a.view(-1) + b.view(-1) + c.view(-1)).sum().backward();  // autograd has one gradient for all
        clip_one();
        {
          const at::Tensor all = torch::ones({8});
          a.mutable_grad() = all.narrow(0, 0, 6);
          b.mutable_grad() = all.narrow(0, 2, 6);
          c.mutable_grad() = torch::ones({2, 3});
        }
        clip_one();
        a.mutable_grad() = b.mutable_grad() = torch::ones({6});
        c.mutable_grad() = torch::ones({2, 3});
        clip_one();
      }
    });
  }
}

// LibTorch leaves such a gradient when a graph from before a change of shape is used again.
TEST(GradientReducer, GradientOfOtherShapeIsUsageError) {
  on_ranks(1, [](Context& context) {
    at::Tensor a = weight({3});
    DistributedOptimizer optimizer(context, sgd({a}), NamedTensors{{"a", a}});
    try {
      a.set_data(torch::ones({1}));
      a.mutable_grad() = torch::ones({1});
      a.set_data(torch::ones({3}));
      optimizer.step();
      ADD_FAILURE() << "no error";
    } catch (const kolo::UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("the gradient of 'a' has shape [1], the parameter has [3]"),
                std::string::npos)
          << error.what();
    }
  });
}

TEST(GradientReducer, DifferentParameterTablesAreMismatchError) {
  on_ranks(2, [](Context& context) {
    at::Tensor a = weight();
    at::Tensor b = weight();
    auto inner = context.rank() == 0 ? sgd({a}) : sgd({a, b});
    EXPECT_THROW(DistributedOptimizer(context, inner, NamedTensors{{"a", a}, {"b", b}}), kolo::MismatchError);
    DistributedOptimizer optimizer(context, sgd({a, b}), NamedTensors{{"a", a}, {"b", b}});
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      (a.sum() + b.sum()).backward();
      optimizer.step();
    }
    if (context.rank() == 1) b.requires_grad_(false);
    optimizer.zero_grad();
    a.sum().backward();
    EXPECT_THROW(optimizer.step(), kolo::MismatchError);
    b.requires_grad_(true);  // they agree again
    optimizer.zero_grad();
    ((a.sum() + b.sum()) * (context.rank() + 1)).backward();
    optimizer.step();
    EXPECT_TRUE(b.grad().eq(1.5).all().item<bool>());
  });
}

TEST(GradientReducer, ExceptionInTrainingCodeReachesPeers) {
  on_ranks(2, [](Context& context) {
    at::Tensor a = weight();
    DistributedOptimizer optimizer(context, sgd({a}), NamedTensors{{"a", a}});
    const auto train = [&](int step) {
      optimizer.zero_grad();
      (a * 2.0).sum().backward();
      if (step == 3 && context.rank() == 1) throw std::runtime_error("out of data");
      optimizer.step();
    };
    for (int step = 0; step < 6; ++step) {
      if (step != 3) {
        context.run([&] { train(step); });
        EXPECT_TRUE(a.grad().eq(2).all().item<bool>()) << step;
        continue;
      }
      try {
        context.run([&] { train(step); });
        ADD_FAILURE() << "no exception";
      } catch (const kolo::PeerFailedError& error) {
        EXPECT_EQ(context.rank(), 0);
        EXPECT_THAT(error.what(), HasSubstr("out of data"));
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(context.rank(), 1);
        EXPECT_STREQ(error.what(), "out of data");
      }
    }
  });
}

TEST(GradientReducer, TwoOptimizersOfOneContextReduceTheirOwnGradients) {
  on_ranks(2, [](Context& context) {
    at::Tensor g = weight();
    at::Tensor d = weight({5});
    DistributedOptimizer generator(context, sgd({g}), NamedTensors{{"weight", g}});
    DistributedOptimizer critic(context, sgd({d}), NamedTensors{{"weight", d}});
    for (int step = 0; step < 4; ++step) {
      critic.zero_grad();
      generator.zero_grad();
      ((d.sum() + g.sum()) * (2 * context.rank())).backward();
      critic.step();
      generator.step();
      EXPECT_TRUE(d.grad().eq(1).all().item<bool>());
      EXPECT_TRUE(g.grad().eq(1).all().item<bool>());
    }
  });
}

TEST(GradientReducer, KeptGradientsAreNotOverwritten) {
  on_ranks(2, [](Context& context) {
    at::Tensor a = weight({1000});
    DistributedOptimizer optimizer(context, sgd({a}), NamedTensors{{"a", a}});
    std::vector<at::Tensor> kept;
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad(step % 2 == 0);
      (a * (step + context.rank())).sum().backward();
      optimizer.step();
      if (step % 2 == 0) kept.push_back(a.grad());
      EXPECT_TRUE(a.grad().eq(step + 0.5).all().item<bool>());
      if (step % 2 == 0) a.mutable_grad() = a.grad().clone();
    }
    for (std::size_t i = 0; i < kept.size(); ++i) {
      EXPECT_TRUE(kept[i].eq(2.0 * static_cast<double>(i) + 0.5).all().item<bool>());
    }
  });
}

}  // namespace
