// Failures in training steps of ranks that are processes: all ranks throw, weights stay unchanged, and the next step
// works where docs/errors.md says so.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include "kolo/torch/torch.h"
#include "multirank/faults/process_world.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

std::string rank_text(Rank rank) { return "rank " + std::to_string(rank); }

// Weights of ones, gradients that are known: the loss is the sum of each parameter used, times the rank's number.
class Training {
 public:
  explicit Training(Context& context, const DistributedOptions& options = {})
      : context_(context),
        weights_({torch::ones({300}), torch::ones({20, 30}), torch::ones({5})}),
        sgd_(std::make_shared<torch::optim::SGD>(trainable(), torch::optim::SGDOptions(1.0))) {
    at::set_num_threads(1);
    optimizer_ = std::make_unique<DistributedOptimizer>(context, sgd_, names(), options);
  }

  DistributedOptimizer& optimizer() { return *optimizer_; }
  [[nodiscard]] const at::Tensor& weight(std::size_t index) const { return weights_[index]; }
  void backward(const std::vector<std::size_t>& used) {
    if (used.empty()) return;
    at::Tensor loss = torch::zeros({});
    for (const auto index : used) loss = loss + weights_[index].sum() * static_cast<double>(context_.rank() + 1);
    loss.backward();
  }
  void step(const std::vector<std::size_t>& used) {
    optimizer_->zero_grad();
    backward(used);
    optimizer_->step();
  }
  // One that must go well: every gradient is the mean of 1..n.
  void expect_clean_step() {
    const auto before = copies();
    step({0, 1, 2});
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      EXPECT_TRUE(torch::allclose(weights_[i], before[i] - (context_.size() + 1) / 2.0)) << "tensor " << i;
    }
  }
  [[nodiscard]] std::vector<at::Tensor> copies() const {
    std::vector<at::Tensor> all;
    for (const auto& weight : weights_) all.push_back(weight.detach().clone());
    return all;
  }
  // Calls `body`, after which all weights must be what they were.
  template <class Body>
  void without_a_change(Body body) {
    const auto before = copies();
    body();
    for (std::size_t i = 0; i < weights_.size(); ++i) EXPECT_TRUE(weights_[i].equal(before[i])) << "tensor " << i;
  }

  [[nodiscard]] NamedTensors names() const { return {{"a", weights_[0]}, {"b", weights_[1]}, {"c", weights_[2]}}; }

 private:
  std::vector<at::Tensor> trainable() {
    for (auto& weight : weights_) weight.set_requires_grad(true);
    return weights_;
  }

  Context& context_;
  std::vector<at::Tensor> weights_;
  std::shared_ptr<torch::optim::SGD> sgd_;
  std::unique_ptr<DistributedOptimizer> optimizer_;
};

// --- before anything is sent ---

TEST(BroadcastParameters, DifferentModelIsMismatchErrorBeforeAnyValueChanges) {
  struct Case {
    const char* what;
    at::Tensor odd;
    std::vector<std::string> texts;
  };
  const std::vector<Case> cases = {
      {"shape", torch::zeros({4, 3}), {"[3, 4]", "[4, 3]"}},
      {"dtype", torch::zeros({3, 4}, torch::kFloat64), {"Float", "Double"}},
      {"strides", torch::zeros({4, 3}).t(), {"strides [4, 1]", "strides [1, 3]"}},
  };
  for_every_odd_rank(quick(), [&](Context& context, const Roles& roles) {
    for (const auto& [what, odd, texts] : cases) {
      SCOPED_TRACE(what);
      const at::Tensor mine = roles.is_odd ? odd.clone() : torch::zeros({3, 4});
      mine.fill_(context.rank());
      auto expected = texts;
      expected.insert(expected.end(), {"'w'", rank_text(0), rank_text(roles.odd == 0 ? 1 : roles.odd)});
      const NamedTensors tensors = {{"same", torch::full({5}, context.rank())}, {"w", mine}};
      expect_error<MismatchError>([&] { broadcast_parameters(context, tensors); }, expected);
      EXPECT_TRUE(tensors[0].second.eq(context.rank()).all().item<bool>()) << "nothing was broadcast";
    }
    const NamedTensors more = {{"w", torch::zeros({3})}, {"only here", torch::zeros({2})}};
    const NamedTensors usual = {{"w", torch::zeros({3})}};
    expect_error<MismatchError>([&] { broadcast_parameters(context, roles.is_odd ? more : usual); }, {"only here"});
    const NamedTensors values = {{"w", torch::full({3}, context.rank())}};
    broadcast_parameters(context, values);
    EXPECT_TRUE(values[0].second.eq(0).all().item<bool>());
  });
}

TEST(DistributedOptions, DifferenceIsMismatchErrorInConstructor) {
  struct Case {
    DistributedOptions odd;
    std::vector<std::string> texts;
  };
  const std::vector<Case> cases = {{{.op = ReduceOp::sum}, {"average", "sum"}},
                                   {{.prescale = 0.5}, {"prescale 1", "prescale 0.5"}},
                                   {{.postscale = 0.25}, {"postscale 1", "postscale 0.25"}},
                                   {{.passes_per_step = 2}, {"passes_per_step=1", "passes_per_step=2"}},
                                   {{.compare_weights = false}, {"compare_weights=1", "compare_weights=0"}}};
  for_every_odd_rank(quick(), [&](Context& context, const Roles& roles) {
    for (const auto& [odd, texts] : cases) {
      SCOPED_TRACE(texts[1]);
      auto expected = texts;
      expected.push_back(rank_text(roles.odd));
      expect_error<MismatchError>([&] { const Training training(context, roles.is_odd ? odd : DistributedOptions{}); },
                                  expected);
    }
    Training(context).expect_clean_step();
  });
}

// Without the check, the weights of the ranks would diverge silently.
TEST(OptimizerOptions, DifferenceIsMismatchErrorInFirstStep) {
  for_every_odd_rank(quick(), [&](Context& context, const Roles& roles) {
    const at::Tensor weight = torch::ones({4}).set_requires_grad(true);
    const auto usual = torch::optim::SGDOptions(0.1).momentum(0.9);
    struct Odd {
      torch::optim::SGDOptions options;
      std::string usual_text, odd_text;
    };
    for (const auto& [odd, usual_text, odd_text] :
         {Odd{torch::optim::SGDOptions(0.2).momentum(0.9), "lr=0.1", "lr=0.2"},
          Odd{torch::optim::SGDOptions(0.1), "momentum=0.9", "momentum=0"},
          Odd{torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true), "nesterov=false", "nesterov=true"}}) {
      const auto sgd = std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{weight}, roles.is_odd ? odd : usual);
      DistributedOptimizer wrapped(context, sgd, NamedTensors{{"w", weight}});
      weight.sum().backward();
      expect_error<MismatchError>([&] { wrapped.step(); }, {"settings are \"", "\"" + usual_text + "\" on rank ",
                                                            "\"" + odd_text + "\" on " + rank_text(roles.odd)});
      EXPECT_TRUE(weight.eq(1).all().item<bool>());
    }
    Training(context).expect_clean_step();
  });
}

// --- weights that are not the same ---

TEST(CompareWeights, DifferenceIsMismatchErrorInFirstStepUntilBroadcast) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    Training training(context);
    const auto spoil = [&](std::size_t index) {
      const torch::NoGradGuard no_grad;
      training.weight(index).view(-1)[3].add_(1e-6);
    };
    if (roles.is_odd) {
      spoil(1);
      spoil(2);
    }
    std::string apart = rank_text(roles.odd);
    if (roles.odd == 0) apart = context.size() == 2 ? "rank 1" : "ranks 1, 2";
    training.without_a_change([&] {
      expect_error<MismatchError>(
          [&] {
            training.step({0, 1, 2});
          },
          {"'b' of " + apart + " is not that of rank 0", "(2 of 3 parameters"});
    });
    broadcast_parameters(context, training.names());
    for (int step = 0; step < 3; ++step) training.expect_clean_step();
  });
}

TEST(CompareWeights, DifferenceOfParameterAddedLaterIsMismatchError) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    Training training(context);
    for (int step = 0; step < 2; ++step) training.expect_clean_step();
    const at::Tensor added = torch::full({4}, roles.is_odd ? 2.0 : 1.0).set_requires_grad(true);
    training.optimizer().add_param_group(torch::optim::OptimizerParamGroup({added}), {{"added", added}});
    training.without_a_change([&] {
      expect_error<MismatchError>([&] { training.step({0, 1, 2}); }, {"'added' of rank", "(1 of 4 parameters"});
    });
    broadcast_parameters(context, {{"added", added}});
    training.expect_clean_step();
  });
}

TEST(OptimizerOptions, DifferenceOfGroupAddedLaterIsMismatchError) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    Training training(context);
    for (int step = 0; step < 2; ++step) training.expect_clean_step();
    const at::Tensor added = torch::ones({4}).set_requires_grad(true);
    training.optimizer().add_param_group(
        torch::optim::OptimizerParamGroup({added},
                                          std::make_unique<torch::optim::SGDOptions>(roles.is_odd ? 0.5 : 0.1)),
        {{"added", added}});
    training.without_a_change([&] {
      expect_error<MismatchError>(
          [&] {
            training.step({0, 1, 2});
          },
          {"\"group 1 lr=0.5\" on " + rank_text(roles.odd), "\"group 1 lr=0.1\" on "});
    });
  });
}

// As programs written for Horovod do: wrap, load on one rank, broadcast.
TEST(OptimizerOptions, BroadcastAfterWrappingMakesThemEqual) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    Training training(context);
    auto& options =
        static_cast<torch::optim::SGDOptions&>(training.optimizer().optimizer().param_groups()[0].options());
    if (roles.is_odd) options.lr(0.5);
    broadcast_optimizer_state(context, training.optimizer().optimizer(), roles.odd);
    EXPECT_EQ(options.lr(), 0.5);
    training.step({0, 1, 2});
  });
}

TEST(CompareWeights, SendsNoMessagesAfterFirstRoundAndCanBeDisabled) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    Training usual(context);
    usual.expect_clean_step();
    const auto messages = context.counters().at("control_messages");
    for (int step = 0; step < 3; ++step) usual.expect_clean_step();
    EXPECT_EQ(context.counters().at("control_messages"), messages);
    Training apart(context, {.compare_weights = false});
    if (roles.is_odd) {
      const torch::NoGradGuard no_grad;
      apart.weight(0).add_(1);
    }
    apart.expect_clean_step();
  });
}

// --- gradients that are not there ---

TEST(DistributedOptimizer, GradientMissingOnOneRankCountsAsZerosAndOnAllStaysUndefined) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    Training training(context);
    const double all = context.size() * (context.size() + 1) / 2.0;
    for (int step = 0; step < 6; ++step) {
      if (step == 3) training.expect_clean_step();
      training.step(roles.is_odd ? std::vector<std::size_t>{0} : std::vector<std::size_t>{0, 1});
      const auto is = [&](std::size_t index, double value) {
        const at::Tensor gradient = training.weight(index).grad();
        return gradient.defined() && torch::allclose(gradient, torch::full_like(gradient, value));
      };
      EXPECT_TRUE(is(0, all / context.size()));
      EXPECT_TRUE(is(1, (all - roles.odd - 1) / context.size()));
      EXPECT_FALSE(training.weight(2).grad().defined());
    }
  });
}

TEST(DistributedOptimizer, ParameterAddedOnOneRankIsMismatchErrorOnEveryRank) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    Training training(context);
    for (int step = 0; step < 2; ++step) training.expect_clean_step();
    training.without_a_change([&] {
      if (roles.is_odd) {
        const at::Tensor added = torch::ones({4}).set_requires_grad(true);
        training.optimizer().add_param_group(torch::optim::OptimizerParamGroup({added}), {{"added", added}});
      }
      expect_error<MismatchError>([&] { training.step({0, 1, 2}); }, {"added", rank_text(roles.odd)});
    });
  });
}

// --- training code that throws ---

TEST(ContextRun, ExceptionReachesPeersWithItsTextAndNextStepWorks) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    Training training(context);
    // In the first round, in frozen ones; before backward, in the middle of it, and after it.
    for (const auto& [clean_before, used] :
         {std::pair<int, std::vector<std::size_t>>{0, {}}, {1, {1}}, {3, {0, 1}}, {2, {0, 1, 2}}}) {
      for (int step = 0; step < clean_before; ++step) training.expect_clean_step();
      training.without_a_change([&, used = used] {
        if (!roles.is_odd) {
          expect_error<PeerFailedError>([&] { context.run([&] {
                                                training.step({0, 1, 2});
                                              }); },
                                        {"broken image", rank_text(roles.odd)});
          return;
        }
        training.optimizer().zero_grad();
        const auto fail = [&] {
          training.backward(used);
          throw std::runtime_error("broken image");
        };
        EXPECT_THROW(context.run(fail), std::runtime_error);
      });
    }
    training.expect_clean_step();
  });
}

// As in a training function: the exception takes model and optimizer with it, before Context::run reports it.
TEST(ContextRun, ExceptionReachesPeersAfterOptimizerIsDestroyed) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    const auto train = [&] {
      Training training(context);
      for (int step = 0; step < 2; ++step) training.expect_clean_step();
      training.optimizer().zero_grad();
      training.backward({0, 1, 2});
      if (roles.is_odd) throw std::runtime_error("broken image");
      training.optimizer().step();
    };
    if (roles.is_odd) {
      EXPECT_THROW(context.run(train), std::runtime_error);
    } else {
      expect_error<PeerFailedError>([&] { context.run(train); }, {"broken image", rank_text(roles.odd)});
    }
    Training(context).expect_clean_step();
  });
}

TEST(ContextRun, UsageErrorOfSecondBackwardEndsRoundOnAllRanks) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    Training training(context);
    training.expect_clean_step();
    training.without_a_change([&] {
      training.optimizer().zero_grad();
      const auto train = [&] {
        training.backward({0, 1, 2});
        if (roles.is_odd) training.backward({0, 1, 2});
        training.optimizer().step();
      };
      if (roles.is_odd) {
        expect_error<UsageError>([&] { context.run(train); }, {"no_sync"});
      } else {
        expect_error<PeerFailedError>([&] { context.run(train); }, {"no_sync", rank_text(roles.odd)});
      }
    });
    training.expect_clean_step();
  });
}

// --- ranks that do not come ---

TEST(Timeout, OfStepNamesRankThatDidNotTakeIt) {
  auto config = quick();
  config.timeout = 500ms;
  for_every_odd_rank(config, [](Context& context, const Roles& roles) {
    Training training(context);
    for (int step = 0; step < 2; ++step) training.expect_clean_step();
    if (!roles.is_odd) {
      training.without_a_change([&] {
        expect_error<TimeoutError>([&] { training.step({0, 1, 2}); }, {rank_text(roles.odd)});
      });
    }
    meet_all();
  });
}

TEST(Shutdown, EndsStepOfPeersWithPeerLostError) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    {
      Training training(context);
      for (int step = 0; step < 2; ++step) training.expect_clean_step();
      if (!roles.is_odd) {
        training.without_a_change([&] {
          expect_error<PeerLostError>([&] { training.step({0, 1, 2}); }, {rank_text(roles.odd)});
        });
      }
    }
    if (roles.is_odd) context.shutdown();
  });
}

}  // namespace
}  // namespace kolo::test
