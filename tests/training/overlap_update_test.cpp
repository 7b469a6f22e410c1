// Weights that are updated while other gradients are still being reduced: results, and the state after a failure.
#include <gmock/gmock.h>
#include <torch/csrc/autograd/custom_function.h>

#include <atomic>
#include <barrier>

#include "kolo/error.h"
#include "kolo/spi/engine.h"
#include "support/thread_ranks.h"
#include "training/equivalence.h"

namespace kolo::test {
namespace {

using testing::HasSubstr;

DistributedOptions overlapped(DistributedOptions options) {
  options.overlap_update = true;
  return options;
}

std::vector<History> train(const std::vector<int>& hosts, Rule rule, const DistributedOptions& options) {
  auto contexts = Context::create_local(hosts, Config{});
  std::vector<History> histories(hosts.size());
  run_ranks(static_cast<int>(hosts.size()), [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    histories[r] = train_together(*contexts[r], rule, torch::kFloat32, options);
  });
  return histories;
}

class OverlappedUpdate : public testing::TestWithParam<std::tuple<Rule, std::vector<int>>> {};
INSTANTIATE_TEST_SUITE_P(All, OverlappedUpdate,
                         testing::Combine(testing::Values(Rule::fused_sgd, Rule::fused_adamw),
                                          testing::Values(std::vector{0}, std::vector{0, 0}, std::vector{0, 1},
                                                          std::vector{0, 0, 0}, std::vector{0, 1, 2, 3})));

TEST_P(OverlappedUpdate, WeightsEqualSequentialUpdate) {
  const auto& [rule, hosts] = GetParam();
  for (const auto& options : {packed(), shared()}) {
    const auto afterwards = train(hosts, rule, options);
    for (const auto& history : train(hosts, rule, overlapped(options))) {
      expect_bitwise_equal(afterwards[0], history, "overlapped");
    }
  }
}

// w -= gradient / 2, and says each time that it does.
class Recorder final : public torch::optim::SGD, public FusedOptimizer {
 public:
  explicit Recorder(std::vector<at::Tensor> weights) : SGD(std::move(weights), torch::optim::SGDOptions(0.5)) {}
  at::Tensor step(LossClosure /*closure*/ = nullptr) override {
    const torch::NoGradGuard no_grad;
    update_all();
    return {};
  }
  void undo() override {}
  [[nodiscard]] std::vector<at::Tensor> kept_for(const at::Tensor& /*weight*/) const override { return kept; }

  std::atomic<int> updates{0};
  std::function<void()> when_updating;
  std::vector<at::Tensor> kept;

 private:
  [[nodiscard]] const torch::optim::Optimizer& optimizer() const noexcept override { return *this; }
  void update(std::size_t group, std::size_t from, std::size_t to) override {
    for (std::size_t i = from; i < to; ++i) {
      const at::Tensor& weight = param_groups_[group].params()[i];
      if (!is_due(weight)) continue;
      if (when_updating) when_updating();
      weight.sub_(weight.grad(), 0.5);
      updates.fetch_add(1);
    }
  }
};

// Runs `between` where backward comes past it.
struct Between : torch::autograd::Function<Between> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const std::function<void()>* between) {
    context->saved_data["between"] = reinterpret_cast<std::int64_t>(between);
    return input.clone();
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               const torch::autograd::tensor_list& gradients) {
    (*reinterpret_cast<const std::function<void()>*>(context->saved_data["between"].toInt()))();
    return {gradients[0], at::Tensor()};
  }
};

// A rank's own part: a gradient of rank + 1 for `early`, and then for `late`, each in a bucket of its own.
struct Training {
  explicit Training(Context& where, DistributedOptions options = {}) : context(where) {
    at::set_num_threads(1);
    options.bucket_bytes = 1;
    options.overlap_update = true;
    optimizer = std::make_unique<DistributedOptimizer>(context, recorder,
                                                       NamedTensors{{"early", early}, {"late", late}}, options);
  }
  void backward(const std::function<void()>& between = [] {}) {
    const at::Tensor slow = Between::apply(late * x(), &between).sum();
    const at::Tensor fast = (early * x()).sum();  // made later, so backward comes to it first
    (slow + fast).backward();
  }
  void step(const std::function<void()>& between = [] {}) {
    optimizer->zero_grad();
    backward(between);
    optimizer->step();
  }
  // Rank 1, until rank 0 has updated `early`, so often in all.
  void wait_for_update(const Training& first, int updates) const {
    while (other() && first.recorder->updates.load() < updates) context.engine().progress();
  }
  [[nodiscard]] double x() const { return context.rank() + 1; }
  [[nodiscard]] bool other() const { return context.rank() == 1; }
  [[nodiscard]] std::pair<double, double> weights() const {
    return {early.detach()[0].item<double>(), late.detach()[0].item<double>()};
  }

  Context& context;
  at::Tensor early = torch::zeros({1000}).requires_grad_(true);
  at::Tensor late = torch::zeros({1000}).requires_grad_(true);
  std::shared_ptr<Recorder> recorder = std::make_shared<Recorder>(std::vector<at::Tensor>{early, late});
  std::unique_ptr<DistributedOptimizer> optimizer;
};

using Pair = std::pair<double, double>;

// Two ranks; each may look at the other's.
void on_two(const std::function<void(Training&, const Training& first)>& body, const DistributedOptions& options = {}) {
  auto contexts = Context::create_local(2);
  std::vector<std::unique_ptr<Training>> all(2);
  std::barrier made(2);
  run_ranks(2, [&](int rank) {
    auto& mine = all[static_cast<std::size_t>(rank)];
    mine = std::make_unique<Training>(*contexts[static_cast<std::size_t>(rank)], options);
    made.arrive_and_wait();
    body(*mine, *all[0]);
    made.arrive_and_wait();
    mine.reset();
  });
}

TEST(OverlappedUpdate, UpdatesWeightWhilePeerComputesLaterGradient) {
  on_two([](Training& r, const Training& first) {
    r.step();  // negotiated, and weights are compared behind it
    EXPECT_EQ(r.weights(), Pair(-0.75, -0.75));
    for (int step = 1; step < 5; ++step) {
      r.step([&] { r.wait_for_update(first, 2 * step + 1); });
      EXPECT_EQ(r.weights(), Pair(-0.75 * (step + 1), -0.75 * (step + 1)));
      EXPECT_EQ(r.recorder->updates.load(), 2 * (step + 1));
    }
  });
}

// Rank 1 throws in it, of which rank 0 is told.
void expect_failure(const Training& r, const std::function<void()>& train) {
  if (r.other()) {
    EXPECT_THROW(r.context.run(train), std::runtime_error);
  } else {
    EXPECT_THROW(train(), PeerFailedError);
  }
}

// Rank 1 throws when rank 0 has updated a weight.
void fail(Training& r, const Training& first, int updates) {
  expect_failure(r, [&] {
    r.step([&] {
      r.wait_for_update(first, updates);
      if (r.other()) throw std::runtime_error("bad batch");
    });
  });
  EXPECT_EQ(r.weights(), r.other() ? Pair(-0.75, -0.75) : Pair(-1.5, -0.75));
}

void expect_mismatch(Training& r, const std::string& words) {
  const Pair before = r.weights();
  try {
    r.step();
    ADD_FAILURE() << "ranks that differ go on";
  } catch (const MismatchError& error) {
    EXPECT_THAT(error.what(), HasSubstr(words));
  }
  EXPECT_EQ(r.weights(), before);
}

TEST(OverlappedUpdate, WeightsThatDifferAfterFailureAreMismatchErrorOnAllRanks) {
  on_two([](Training& r, const Training& first) {
    r.step();
    fail(r, first, 3);
    expect_mismatch(r, "'early' of rank 1");
    expect_mismatch(r, "broadcast_optimizer_state()");
    broadcast_parameters(r.context, NamedTensors{{"early", r.early}, {"late", r.late}});
    r.step();
    EXPECT_EQ(r.weights(), Pair(-2.25, -1.5));
    const int before = first.recorder->updates.load();
    r.step([&] { r.wait_for_update(first, before + 1); });
    EXPECT_EQ(r.weights(), Pair(-3, -2.25));
  });
}

TEST(OverlappedUpdate, OptimizerStateThatDiffersAfterFailureIsMismatchError) {
  on_two([](Training& r, const Training& first) {
    r.step();
    fail(r, first, 3);
    broadcast_parameters(r.context, NamedTensors{{"early", r.early}, {"late", r.late}});
    r.recorder->kept = {torch::full({3}, r.x())};
    expect_mismatch(r, "optimizer state");
    if (r.other()) r.recorder->kept.clear();
    expect_mismatch(r, "optimizer state");
    r.recorder->kept = {torch::ones({3})};
    r.step();
    EXPECT_EQ(r.weights(), Pair(-2.25, -1.5));
  });
}

TEST(OverlappedUpdate, WeightFrozenAfterFailureIsStillCompared) {
  on_two([](Training& r, const Training& first) {
    r.step();
    fail(r, first, 3);
    r.early.set_requires_grad(false);
    const auto step = [&] {
      r.optimizer->zero_grad();
      (r.late * r.x()).sum().backward();
      r.optimizer->step();
    };
    EXPECT_THROW(step(), MismatchError);
    EXPECT_THROW(step(), MismatchError);
    {
      const torch::NoGradGuard no_grad;
      r.early.fill_(-1.5);
    }
    step();
    EXPECT_EQ(r.weights(), Pair(-1.5, -1.5));
  });
}

// With and without overlap_update after wrapping.
TEST(OverlappedUpdate, OptimizerWrappedAgainAfterFailureUpdatesAllWeights) {
  for (const bool overlap : {false, true}) {
    on_two([overlap](Training& r, const Training& first) {
      r.step();
      fail(r, first, 3);
      r.optimizer.reset();
      const NamedTensors parameters{{"early", r.early}, {"late", r.late}};
      broadcast_parameters(r.context, parameters);
      DistributedOptions options;
      options.overlap_update = overlap;
      r.optimizer = std::make_unique<DistributedOptimizer>(r.context, r.recorder, parameters, options);
      r.step();
      EXPECT_EQ(r.weights(), Pair(-2.25, -1.5));
    });
  }
}

TEST(OverlappedUpdate, FailureBeforeAnyUpdateLeavesWeightsUnchanged) {
  on_two([](Training& r, const Training&) {
    r.step();
    expect_failure(r, [&] {
      if (r.other()) throw std::runtime_error("bad batch");
      r.step();
    });
    EXPECT_EQ(r.weights(), Pair(-0.75, -0.75));
    r.step();
    EXPECT_EQ(r.weights(), Pair(-1.5, -1.5));
  });
}

// The round has succeeded and peers have stepped, as if the optimizer's own step() had thrown.
TEST(OverlappedUpdate, StepThrowsExceptionOfUpdateAndCanBeRepeated) {
  on_two([](Training& r, const Training&) {
    r.step();
    bool thrown = false;
    if (r.other()) {
      r.recorder->when_updating = [&] {
        if (!std::exchange(thrown, true)) throw std::runtime_error("no memory");
      };
      EXPECT_THROW(r.step(), std::runtime_error);
      r.optimizer->step();
    } else {
      r.step();
    }
    EXPECT_EQ(r.weights(), Pair(-1.5, -1.5));
    r.step();
    EXPECT_EQ(r.weights(), Pair(-2.25, -2.25));
  });
}

TEST(OverlappedUpdate, SynchronizeReducesAllGradientsBeforeAnyUpdate) {
  on_two([](Training& r, const Training&) {
    r.step();
    r.optimizer->zero_grad();
    r.backward();
    r.optimizer->synchronize();
    EXPECT_EQ(r.recorder->updates.load(), 2);
    for (auto* weight : {&r.early, &r.late}) weight->mutable_grad().fill_(0.5);
    r.optimizer->step();
    EXPECT_EQ(r.weights(), Pair(-1, -1));
    r.optimizer->zero_grad();
    r.backward();
    r.optimizer->skip();
    EXPECT_EQ(r.weights(), Pair(-1, -1));
  });
}

TEST(OverlappedUpdate, ParameterAddedAfterBackwardIsUpdated) {
  on_two([](Training& r, const Training&) {
    r.step();
    at::Tensor joined = torch::zeros({10}).requires_grad_(true);
    r.optimizer->zero_grad();
    r.backward();
    joined.mutable_grad() = torch::full({10}, r.x());
    r.optimizer->add_param_group(torch::optim::OptimizerParamGroup({joined}), {{"joined", joined}});
    r.optimizer->step();
    EXPECT_EQ(r.weights(), Pair(-1.5, -1.5));
    EXPECT_EQ(joined.grad()[0].item<double>(), 1.5);
    r.step();
    EXPECT_EQ(r.weights(), Pair(-2.25, -2.25));
  });
}

TEST(OverlappedUpdate, UnsupportedOptimizerOrOptionsAreRefused) {
  auto contexts = Context::create_local(2);
  run_ranks(2, [&](int rank) {
    Context& context = *contexts[static_cast<std::size_t>(rank)];
    const at::Tensor weight = torch::zeros({10}).requires_grad_(true);
    const auto wrap = [&](const std::shared_ptr<torch::optim::Optimizer>& optimizer, bool overlap) {
      DistributedOptions options;
      options.overlap_update = overlap;
      DistributedOptimizer(context, optimizer, NamedTensors{{"weight", weight}}, options);
    };
    try {
      wrap(std::make_shared<torch::optim::SGD>(std::vector{weight}, torch::optim::SGDOptions(0.5)), true);
      ADD_FAILURE();
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("FusedSGD"));
    }
    EXPECT_THROW(wrap(make_optimizer(Rule::fused_sgd, {weight}), rank == 0), MismatchError);
    DistributedOptions unseen;
    unseen.overlap_update = true;
    unseen.compare_weights = false;
    EXPECT_THROW(DistributedOptimizer(context, make_optimizer(Rule::fused_sgd, {weight}),
                                      NamedTensors{{"weight", weight}}, unseen),
                 UsageError);
  });
}

}  // namespace
}  // namespace kolo::test
