// Gradients in shared memory: what docs/gradients.md says of param.grad() holds for them too, and nothing is copied.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include "kolo/context.h"
#include "kolo/error.h"
#include "kolo/torch/torch.h"
#include "support/thread_ranks.h"

namespace kolo::test {
namespace {

constexpr std::int64_t kCount = 200000;  // between hosts: enough for a ring

// The gradient of `large` is x, that of `small`, which is too small to be shared, too. Ranks take x = rank + 1.
struct Training {
  explicit Training(Context& where, DistributedOptions options = {}) : context(where) {
    at::set_num_threads(1);
    options.shared_gradients = true;
    sgd = std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{large, small}, torch::optim::SGDOptions(0.5));
    optimizer =
        std::make_unique<DistributedOptimizer>(context, sgd, NamedTensors{{"large", large}, {"small", small}}, options);
    step();  // makes the plan, and its memory
  }
  [[nodiscard]] double x() const { return context.rank() + 1; }
  // Parameters times numbers of their own size: the gradient is computed, not passed through.
  [[nodiscard]] at::Tensor loss(double factor = 1) const {
    return (large * torch::full({kCount}, x() * factor)).sum() + (small * torch::full({3}, x() * factor)).sum();
  }
  void step() {
    optimizer->zero_grad();
    loss().backward();
    optimizer->step();
  }
  [[nodiscard]] std::uint64_t copied() const { return context.counters().at("bytes_copied"); }

  Context& context;
  at::Tensor large = torch::ones({kCount}).requires_grad_(true);
  at::Tensor small = torch::ones({3}).requires_grad_(true);
  std::shared_ptr<torch::optim::SGD> sgd;
  std::unique_ptr<DistributedOptimizer> optimizer;
};

// Two ranks on one host, or on one each.
class SharedGradients : public testing::TestWithParam<std::vector<int>> {
 protected:
  [[nodiscard]] static std::vector<std::unique_ptr<Context>> contexts() {
    return Context::create_local(GetParam(), Config{});
  }
  static void on_two(const std::function<void(Training&)>& body, const DistributedOptions& options = {}) {
    const auto all = contexts();
    run_ranks(2, [&](int rank) {
      Training mine(*all[static_cast<std::size_t>(rank)], options);
      body(mine);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Hosts, SharedGradients, testing::Values(std::vector{0, 0}, std::vector{0, 1}),
                         [](const auto& one) { return one.param.back() == 0 ? "one" : "two"; });

bool all_are(const at::Tensor& tensor, double value) { return tensor.eq(value).all().item<bool>(); }

constexpr std::uint64_t kSmallBytes = 3 * sizeof(float);

TEST_P(SharedGradients, AreReducedInPlaceWithoutCopy) {
  on_two([](Training& r) {
    for (int step = 0; step < 5; ++step) {
      const auto before = r.copied();
      r.optimizer->zero_grad();
      r.loss().backward();
      const void* made = r.large.grad().const_data_ptr();
      const auto version = r.large.grad()._version();
      r.optimizer->synchronize();
      EXPECT_EQ(r.large.grad().const_data_ptr(), made);
      EXPECT_GT(r.large.grad()._version(), version);
      EXPECT_TRUE(all_are(r.large.grad(), 1.5) && all_are(r.small.grad(), 1.5));
      EXPECT_EQ(r.copied() - before, kSmallBytes);
      r.optimizer->step();
      EXPECT_TRUE(all_are(r.large, 1 - 0.75 * (step + 2)));
    }
  });
}

TEST_P(SharedGradients, AccumulateInPlaceUnderNoSync) {
  on_two([](Training& r) {
    for (int step = 0; step < 3; ++step) {
      const auto before = r.copied();
      r.optimizer->zero_grad();
      {
        const auto guard = r.optimizer->no_sync();
        r.loss().backward();
        r.loss(10).backward();
      }
      r.loss(100).backward();
      const void* made = r.large.grad().const_data_ptr();
      r.optimizer->step();
      EXPECT_EQ(r.large.grad().const_data_ptr(), made);
      EXPECT_TRUE(all_are(r.large.grad(), 1.5 * 111));
      EXPECT_EQ(r.copied() - before, kSmallBytes);
    }
  });
}

TEST_P(SharedGradients, AccumulateInPlaceWithPassesPerStep) {
  on_two(
      [](Training& r) {
        r.optimizer->zero_grad();
        r.loss().backward();
        const auto before = r.copied();
        r.loss(10).backward();
        r.optimizer->step();
        EXPECT_TRUE(all_are(r.large.grad(), 1.5 * 11));
        EXPECT_EQ(r.copied() - before, kSmallBytes);
      },
      {.passes_per_step = 2});
}

TEST_P(SharedGradients, ZeroedGradientsAreReducedInPlace) {
  on_two([](Training& r) {
    for (int step = 0; step < 3; ++step) {
      r.optimizer->zero_grad(step == 0);
      const auto before = r.copied();
      r.loss().backward();
      r.optimizer->step();
      EXPECT_TRUE(all_are(r.large.grad(), 1.5) && all_are(r.small.grad(), 1.5));
      EXPECT_EQ(r.copied() - before, kSmallBytes);
    }
  });
}

TEST_P(SharedGradients, KeptGradientIsNotOverwritten) {
  on_two([](Training& r) {
    r.step();
    const at::Tensor kept = r.large.grad();
    const at::Tensor view = r.large.grad().narrow(0, 10, 20);
    r.optimizer->zero_grad();
    r.loss(10).backward();
    r.optimizer->step();
    EXPECT_TRUE(all_are(r.large.grad(), 15));
    EXPECT_TRUE(all_are(kept, 1.5) && all_are(view, 1.5));
  });
}

TEST_P(SharedGradients, GradientHeldDuringRoundGetsResult) {
  on_two([](Training& r) {
    r.optimizer->zero_grad();
    at::Tensor held;
    {
      const auto guard = r.optimizer->no_sync();
      r.loss().backward();
      held = r.large.grad();
    }
    r.optimizer->step();
    EXPECT_TRUE(r.large.grad().is_same(held));
    EXPECT_TRUE(all_are(held, 1.5));
  });
}

// Gives both parameters the same memory as their gradients.
struct Both : torch::autograd::Function<Both> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, const at::Tensor& a, const at::Tensor& b) {
    return a + b;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 torch::autograd::variable_list gradients) {
    const at::Tensor twice = gradients[0] * 2;
    return {twice, twice.detach()};
  }
};

TEST_P(SharedGradients, TwoGradientsInOneMemoryAreEachReducedOnce) {
  auto all = contexts();
  run_ranks(2, [&](int rank) {
    auto& context = *all[static_cast<std::size_t>(rank)];
    const at::Tensor a = torch::ones({kCount}).requires_grad_(true);
    const at::Tensor b = torch::ones({kCount}).requires_grad_(true);
    auto sgd = std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{a, b}, torch::optim::SGDOptions(0.5));
    DistributedOptions options;
    options.op = ReduceOp::sum;
    options.shared_gradients = true;
    DistributedOptimizer optimizer(context, sgd, NamedTensors{{"a", a}, {"b", b}}, options);
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      (Both::apply(a, b) * torch::full({kCount}, rank + 1.0)).sum().backward();
      EXPECT_EQ(a.grad().const_data_ptr(), b.grad().const_data_ptr());
      optimizer.step();
      EXPECT_TRUE(all_are(a.grad(), 6) && all_are(b.grad(), 6)) << "step " << step;
    }
  });
}

TEST_P(SharedGradients, GradientOfPreviousRoundCountsAsMissing) {
  on_two([](Training& r) {
    r.step();
    r.optimizer->step();
    EXPECT_TRUE(all_are(r.large.grad(), 1.5));
    EXPECT_TRUE(all_are(r.large, 1 - 0.75 * 3));
    if (r.context.rank() == 0) {
      r.loss().backward();  // onto the leftover
    }
    r.optimizer->step();
    EXPECT_TRUE(all_are(r.large.grad(), (1.5 + 1) / 2));
  });
}

TEST_P(SharedGradients, StepUsesClippedGradient) {
  on_two([](Training& r) {
    const at::Tensor before = r.large.detach().clone();
    r.optimizer->zero_grad();
    r.loss().backward();
    r.optimizer->synchronize();
    torch::nn::utils::clip_grad_value_(std::vector<at::Tensor>{r.large}, 0.5);
    r.optimizer->step();
    EXPECT_TRUE(torch::equal(r.large, before - 0.25));
  });
}

TEST_P(SharedGradients, GradientMissingOnOneRankCountsAsZeros) {
  on_two([](Training& r) {
    r.optimizer->zero_grad();
    if (r.context.rank() == 1) r.loss().backward();
    r.optimizer->step();
    EXPECT_TRUE(all_are(r.large.grad(), 1));
    r.step();
    EXPECT_TRUE(all_are(r.large.grad(), 1.5));
  });
}

TEST_P(SharedGradients, ExceptionOnOneRankReachesPeersAndNextStepWorks) {
  on_two([](Training& r) {
    const at::Tensor before = r.large.detach().clone();
    const auto train = [&] {
      r.optimizer->zero_grad();
      r.loss().backward();
      if (r.context.rank() == 1) throw std::runtime_error("bad batch");
      r.optimizer->step();
    };
    if (r.context.rank() == 1) {
      EXPECT_THROW(r.context.run(train), std::runtime_error);
    } else {
      EXPECT_THROW(train(), PeerFailedError);
    }
    EXPECT_TRUE(torch::equal(r.large, before));
    r.step();
    EXPECT_TRUE(all_are(r.large.grad(), 1.5));
  });
}

TEST_P(SharedGradients, ParameterAddedLaterIsReducedInPlace) {
  on_two([](Training& r) {
    r.step();
    const at::Tensor late = torch::ones({2 * kCount}).requires_grad_(true);
    r.optimizer->add_param_group(torch::optim::OptimizerParamGroup({late}), {{"late", late}});
    for (int step = 0; step < 3; ++step) {
      r.optimizer->zero_grad();
      const auto before = r.copied();
      (r.loss() + (late * torch::full({2 * kCount}, r.x())).sum()).backward();
      r.optimizer->step();
      EXPECT_TRUE(all_are(r.large.grad(), 1.5) && all_are(late.grad(), 1.5)) << "step " << step;
      if (step == 2) {
        EXPECT_EQ(r.copied() - before, kSmallBytes);
      }
    }
  });
}

TEST_P(SharedGradients, OutliveOptimizerAndContext) {
  auto all = contexts();
  std::vector<at::Tensor> gradients(2);
  run_ranks(2, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    Training mine(*all[r]);
    mine.step();
    gradients[r] = mine.large.grad();
  });
  all.clear();
  for (const auto& gradient : gradients) EXPECT_TRUE(all_are(gradient, 1.5));
  gradients[0].fill_(2);
  EXPECT_TRUE(all_are(gradients[1], 1.5));
}

TEST(SharedGradients, SeveralRanksOnOneOfTwoHostsAreUsageError) {
  auto contexts = Context::create_local(std::vector<int>{0, 0, 1}, Config{});
  run_ranks(3, [&](int rank) { EXPECT_THROW(Training mine(*contexts[static_cast<std::size_t>(rank)]), UsageError); });
}

}  // namespace
}  // namespace kolo::test
