// The rules of docs/gradients.md, on one rank, against a strict fake of the engine.
#include <gmock/gmock.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include "kolo/error.h"
#include "kolo/torch/distributed_optimizer.h"
#include "support/fake_engine.h"

namespace {

using kolo::DistributedOptimizer;
using kolo::DistributedOptions;
using kolo::NamedTensors;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

at::Tensor parameter(std::vector<double> values) { return torch::tensor(values, torch::kFloat64).requires_grad_(true); }

template <class F>
std::string usage_error(F&& body) {
  try {
    body();
  } catch (const kolo::UsageError& error) {
    return error.what();
  }
  return "no UsageError";
}

// y = sum(a * x) + sum(b * x): gradients are x.
class GradientBinding : public testing::Test {
 protected:
  void wrap(DistributedOptions options = {}) {
    optimizer.reset();
    optimizer = std::make_unique<DistributedOptimizer>(engine, sgd, NamedTensors{{"a", a}, {"b", b}}, options);
  }
  static void backward(const at::Tensor& w, double x) { (w * x).sum().backward(); }
  void backward_both(double x) { ((a * x).sum() + (b * x).sum()).backward(); }
  static std::vector<double> values(const at::Tensor& t) {
    const auto flat = t.detach().contiguous().view(-1);
    return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
  }
  const std::vector<std::vector<std::string>>& rounds() const { return engine.log->rounds; }

  at::Tensor a = parameter({1, 2});
  at::Tensor b = parameter({3});
  std::shared_ptr<torch::optim::SGD> sgd =
      std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{a, b}, torch::optim::SGDOptions(0.5));
  kolo::test::FakeEngine engine;
  std::unique_ptr<DistributedOptimizer> optimizer;
};

TEST_F(GradientBinding, GradIsViewOfReducedMemoryAfterSynchronize) {
  wrap({.prescale = 0.5, .postscale = 3});
  backward_both(2);
  optimizer->synchronize();
  EXPECT_THAT(values(a.grad()), ElementsAre(3, 3));
  EXPECT_EQ(a.grad().const_data_ptr(), engine.last->gradient(0).data());
  optimizer->step();  // reduces nothing again
  EXPECT_EQ(rounds().size(), 1U);
  EXPECT_THAT(values(a), ElementsAre(-0.5, 0.5));
  EXPECT_THAT(values(a.grad()), ElementsAre(3, 3));
}

TEST_F(GradientBinding, StepUsesGradientsClippedAfterSynchronize) {
  wrap();
  backward_both(2);
  optimizer->synchronize();
  torch::nn::utils::clip_grad_norm_(std::vector<at::Tensor>{a, b}, 1.0);
  optimizer->step();
  EXPECT_NEAR(values(b)[0], 3 - 0.5 / std::sqrt(3.0), 1e-6);
}

TEST_F(GradientBinding, HooksContributeDuringBackward) {
  wrap();
  std::vector<std::size_t> before;  // contributions made when each parameter's gradient arrives
  a.register_hook([&](const at::Tensor&) { before.push_back(engine.log->contributions); });
  b.register_hook([&](const at::Tensor&) { before.push_back(engine.log->contributions); });
  (a.sum() * b.exp()).sum().backward();
  EXPECT_THAT(before, ElementsAre(0, 1));  // the first was handed over before the second one existed
  EXPECT_EQ(engine.log->contributions, 2U);
  EXPECT_THAT(rounds(), IsEmpty());
}

TEST_F(GradientBinding, GradientMissingOnAllRanksStaysUndefined) {
  wrap();
  backward(a, 1);
  optimizer->step();
  EXPECT_FALSE(b.grad().defined());
  EXPECT_THAT(values(b), ElementsAre(3));
  optimizer->zero_grad();
  optimizer->step();  // an empty round
  EXPECT_EQ(rounds().size(), 2U);
  EXPECT_FALSE(a.grad().defined());
}

TEST_F(GradientBinding, PassesUnderNoSyncAreReducedWithNextPass) {
  wrap();
  {
    const auto guard = optimizer->no_sync();
    backward_both(1);
    backward_both(2);
  }
  backward(a, 4);  // b's hook does not fire outside no_sync
  optimizer->step();
  ASSERT_EQ(rounds().size(), 1U);
  EXPECT_THAT(rounds()[0], UnorderedElementsAre("a", "b"));
  EXPECT_THAT(values(a.grad()), ElementsAre(7, 7));
  EXPECT_THAT(values(b.grad()), ElementsAre(3));
}

TEST_F(GradientBinding, PassesPerStepAreReducedOnce) {
  wrap({.passes_per_step = 2});
  for (int step = 0; step < 2; ++step) {
    optimizer->zero_grad();
    backward_both(1);
    backward_both(5);
    optimizer->step();
    EXPECT_THAT(values(a.grad()), ElementsAre(6, 6));
  }
  EXPECT_EQ(rounds().size(), 2U);
}

TEST_F(GradientBinding, SecondBackwardWithoutNoSyncIsUsageError) {
  wrap();
  backward_both(1);
  const std::string text = usage_error([&] { backward_both(1); });
  EXPECT_THAT(text, HasSubstr("no_sync"));
  EXPECT_THAT(usage_error([&] { optimizer->step(); }), HasSubstr("no_sync"));
  engine.fail_round(std::runtime_error(text));  // as Context::run does
  optimizer->zero_grad();
  backward_both(3);
  optimizer->step();
  EXPECT_THAT(values(a.grad()), ElementsAre(3, 3));
}

TEST_F(GradientBinding, GradientsZeroedInPlaceAreReducedInEveryStep) {
  wrap();
  for (const double x : {1.0, 2.0, 3.0}) {
    optimizer->zero_grad(false);
    backward_both(x);
    optimizer->step();
    EXPECT_THAT(values(a.grad()), ElementsAre(x, x));
    EXPECT_THAT(values(b.grad()), ElementsAre(x));
  }
  EXPECT_EQ(rounds().size(), 3U);
}

TEST_F(GradientBinding, BackwardAddsToReducedGradientWithoutZeroGrad) {
  wrap();
  backward_both(1);
  optimizer->step();
  backward(a, 2);
  optimizer->step();
  EXPECT_THAT(values(a.grad()), ElementsAre(3, 3));
  EXPECT_THAT(rounds()[1], ElementsAre("a"));  // b's is a leftover: not contributed, and left as it is
  EXPECT_THAT(values(b.grad()), ElementsAre(1));
}

TEST_F(GradientBinding, KeptGradientDoesNotChange) {
  wrap();
  backward_both(1);
  optimizer->step();
  const at::Tensor kept = a.grad();
  const at::Tensor part = b.grad().view({1, 1});
  for (const double x : {7.0, 8.0}) {
    optimizer->zero_grad();
    backward_both(x);
    optimizer->step();
  }
  EXPECT_THAT(values(kept), ElementsAre(1, 1));
  EXPECT_THAT(values(part), ElementsAre(1));
  EXPECT_THAT(values(a.grad()), ElementsAre(8, 8));
}

TEST_F(GradientBinding, AssignedGradientIsReduced) {
  wrap();
  a.mutable_grad() = torch::full({2}, 9.0, torch::kFloat64);
  optimizer->step();
  EXPECT_THAT(rounds()[0], ElementsAre("a"));
  EXPECT_THAT(values(a.grad()), ElementsAre(9, 9));
}

TEST_F(GradientBinding, BackwardAfterSynchronizeIsReducedAgain) {
  wrap();
  backward_both(1);
  optimizer->synchronize();
  backward_both(1);
  optimizer->step();
  EXPECT_EQ(rounds().size(), 2U);
  EXPECT_THAT(values(a.grad()), ElementsAre(2, 2));
}

TEST_F(GradientBinding, StepWithClosureReducesAfterClosure) {
  wrap();
  const at::Tensor loss = optimizer->step([&] {
    optimizer->zero_grad();
    at::Tensor value = (a * 2.0).sum();
    value.backward();
    return value;
  });
  EXPECT_DOUBLE_EQ(loss.item<double>(), 6);
  EXPECT_THAT(rounds()[0], ElementsAre("a"));
  EXPECT_THAT(values(a), ElementsAre(0, 1));
}

TEST_F(GradientBinding, SynchronizeInClosureReducesOnce) {
  wrap({.postscale = 3});
  optimizer->step([&] {
    optimizer->zero_grad();
    at::Tensor value = (b * 2.0).sum();
    value.backward();
    optimizer->synchronize();
    torch::nn::utils::clip_grad_norm_(std::vector<at::Tensor>{b}, 1.0);
    return value;
  });
  EXPECT_EQ(rounds().size(), 1U);
  EXPECT_NEAR(values(b)[0], 3 - 0.5, 1e-5);
}

// Also without a gradient on this rank, because other ranks may have one.
TEST_F(GradientBinding, EachEvaluationOfClosureIsOneRound) {
  DistributedOptimizer lbfgs(
      engine,
      std::make_shared<torch::optim::LBFGS>(std::vector<at::Tensor>{b}, torch::optim::LBFGSOptions(0.1).max_iter(3)),
      NamedTensors{{"b", b}});
  std::size_t evaluations = 0;
  lbfgs.step([&] {
    at::Tensor value = (b * b).sum();
    if (++evaluations != 2) {
      b.mutable_grad().reset();
      value.backward();
    }
    return value.detach();
  });
  EXPECT_GT(evaluations, 2U);
  EXPECT_EQ(rounds().size(), evaluations);
}

// Some programs exclude a layer from a step in this way. The other ranks may have reset nothing, so no rank may start a
// round.
TEST_F(GradientBinding, OneGradientResetAfterSynchronizeStartsNoRound) {
  wrap();
  backward_both(1);
  optimizer->synchronize();
  a.mutable_grad() = at::Tensor();
  optimizer->step();
  EXPECT_EQ(rounds().size(), 1U);
  EXPECT_THAT(values(a), ElementsAre(1, 2));
  EXPECT_THAT(values(b), ElementsAre(2.5));
}

TEST_F(GradientBinding, StepAfterSynchronizeAndZeroGradIsNewRound) {
  wrap();
  for (const bool by_wrapper : {true, false}) {
    backward_both(1);
    optimizer->synchronize();
    if (by_wrapper) {
      optimizer->zero_grad(false);
    } else {
      sgd->zero_grad();
    }
    const std::size_t before = rounds().size();
    optimizer->step();  // with nothing of this rank's
    EXPECT_EQ(rounds().size(), before + 1);
    sgd->zero_grad();
  }
}

TEST_F(GradientBinding, GradientOfOtherTypeIsCast) {
  wrap();
  a.mutable_grad() = torch::full({2}, 9.0, torch::kFloat32);
  optimizer->step();
  EXPECT_EQ(a.grad().scalar_type(), torch::kFloat64);
  EXPECT_THAT(values(a.grad()), ElementsAre(9, 9));
  EXPECT_THAT(values(a), ElementsAre(-3.5, -2.5));
}

TEST_F(GradientBinding, FreezingAndUnfreezingChangeParameterTable) {
  wrap();
  b.requires_grad_(false);
  backward(a, 1);
  optimizer->step();
  EXPECT_THAT(engine.log->table_changes, ElementsAre(ElementsAre("a")));
  b.requires_grad_(true);
  optimizer->zero_grad();
  backward_both(4);
  optimizer->step();
  EXPECT_THAT(engine.log->table_changes.back(), ElementsAre("a", "b"));
  EXPECT_THAT(rounds().back(), UnorderedElementsAre("a", "b"));
  EXPECT_THAT(values(b.grad()), ElementsAre(4));
}

TEST_F(GradientBinding, ParametersOfAddedGroupAreReduced) {
  wrap();
  backward_both(1);  // the round has begun
  const at::Tensor c = parameter({5});
  optimizer->add_param_group(torch::optim::OptimizerParamGroup(std::vector<at::Tensor>{c}), {{"c", c}});
  backward(c, 6);
  optimizer->step();  // c had no hook yet: a second round of its own
  EXPECT_THAT(rounds().back(), ElementsAre("c"));
  EXPECT_THAT(values(c), ElementsAre(2));
  EXPECT_THAT(values(a.grad()), ElementsAre(1, 1));
  optimizer->zero_grad();
  backward_both(2);
  backward(c, 2);
  optimizer->step();
  EXPECT_THAT(rounds().back(), UnorderedElementsAre("a", "b", "c"));
}

TEST_F(GradientBinding, UnnamedAddedParameterIsNamedByPosition) {
  wrap();
  const at::Tensor c = parameter({5});
  sgd->add_param_group(torch::optim::OptimizerParamGroup(std::vector<at::Tensor>{c}));
  backward(c, 1);
  optimizer->step();
  EXPECT_THAT(engine.log->table_changes.back(), ElementsAre("a", "b", "param_group.1.0"));
}

TEST_F(GradientBinding, ChangedShapeChangesParameterTable) {
  wrap();
  b.set_data(torch::ones({2, 2}, torch::kFloat64));
  b.mutable_grad() = at::Tensor();
  backward_both(2);
  optimizer->step();
  EXPECT_EQ(engine.log->table_changes.size(), 1U);
  EXPECT_THAT(values(b.grad()), ElementsAre(2, 2, 2, 2));
  EXPECT_EQ(b.grad().sizes(), b.sizes());
}

TEST_F(GradientBinding, DetachRestoresHooksAndKeepsGradients) {
  struct Counting final : torch::autograd::PostAccumulateGradHook {
    explicit Counting(int& n) : count(n) {}
    void operator()(const at::Tensor&) override { ++count; }
    int& count;
  };
  int calls = 0;
  torch::autograd::impl::set_post_acc_grad_hooks(a, std::make_unique<Counting>(calls));
  wrap();
  backward_both(2);
  optimizer->step();
  EXPECT_EQ(calls, 1);
  optimizer->detach();
  EXPECT_THAT(values(a.grad()), ElementsAre(2, 2));
  optimizer->zero_grad();
  backward_both(3);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(rounds().size(), 1U);
  wrap();  // again
  optimizer->zero_grad();
  backward_both(4);
  optimizer->step();
  EXPECT_EQ(calls, 3);
  EXPECT_THAT(values(a.grad()), ElementsAre(4, 4));
  EXPECT_EQ(engine.log->reducers, 2);
}

TEST_F(GradientBinding, HookThatWrapsKolosHookWorksAfterDetach) {
  struct Over final : torch::autograd::PostAccumulateGradHook {
    Over(std::unique_ptr<PostAccumulateGradHook> below, int& n) : inner(std::move(below)), count(n) {}
    void operator()(const at::Tensor& tensor) override {
      (*inner)(tensor);
      ++count;
    }
    std::unique_ptr<PostAccumulateGradHook> inner;
    int& count;
  };
  wrap();
  int calls = 0;
  auto below = std::move(torch::autograd::impl::post_acc_grad_hooks(a));
  torch::autograd::impl::set_post_acc_grad_hooks(a, std::make_unique<Over>(std::move(below), calls));
  backward_both(1);
  optimizer->step();
  optimizer.reset();
  a.mutable_grad() = at::Tensor();
  backward(a, 1);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(rounds().size(), 1U);
}

TEST_F(GradientBinding, SeveralHooksAreRemovedInAnyOrder) {
  std::vector<std::unique_ptr<DistributedOptimizer>> several;
  for (int i = 0; i < 3; ++i) {
    several.push_back(std::make_unique<DistributedOptimizer>(engine, sgd, NamedTensors{{"a", a}, {"b", b}}));
  }
  for (const std::size_t one : {1, 0, 2}) several[one].reset();
  EXPECT_EQ(torch::autograd::impl::post_acc_grad_hooks(a), nullptr);
}

TEST_F(GradientBinding, InvalidOptionsAndNamesAreUsageError) {
  EXPECT_THAT(usage_error([&] { wrap({.passes_per_step = 0}); }), HasSubstr("passes_per_step"));
  EXPECT_THAT(usage_error([&] { wrap({.op = kolo::ReduceOp::max}); }), HasSubstr("max"));
  EXPECT_THAT(usage_error([&] { DistributedOptimizer(engine, sgd, NamedTensors{{"a", a}}); }), HasSubstr("0.1"));
  EXPECT_THAT(usage_error([&] {
                DistributedOptimizer(engine, sgd, NamedTensors{{"a", a}, {"a", b}});
              }),
              HasSubstr("'a'"));
}

TEST_F(GradientBinding, ComplexOrSparseParameterIsNamedInUsageError) {
  const at::Tensor z = torch::zeros({2}, torch::kComplexDouble).requires_grad_(true);
  auto complex = std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{z}, torch::optim::SGDOptions(0.1));
  EXPECT_THAT(usage_error([&] {
                DistributedOptimizer(engine, complex, NamedTensors{{"zeta", z}});
              }),
              HasSubstr("'zeta' is complex"));

  torch::nn::Embedding table(torch::nn::EmbeddingOptions(4, 2).sparse(true));
  auto sparse = std::make_shared<torch::optim::SGD>(table->parameters(), torch::optim::SGDOptions(0.1));
  DistributedOptimizer wrapped(engine, sparse, kolo::named_tensors(table->named_parameters()));
  EXPECT_THAT(usage_error([&] {
                table->forward(torch::tensor({1, 2})).sum().backward();
              }),
              HasSubstr("'weight' is sparse"));
}

TEST_F(GradientBinding, ParameterWithTwoNamesIsReducedOnce) {
  auto shared = std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{a}, torch::optim::SGDOptions(0.5));
  DistributedOptimizer wrapped(engine, shared, NamedTensors{{"encoder", a}, {"decoder", a}});
  ((a * 2.0).sum() + (a * 3.0).sum()).backward();
  wrapped.step();
  EXPECT_THAT(rounds()[0], ElementsAre("encoder"));
  EXPECT_THAT(values(a.grad()), ElementsAre(5, 5));
}

TEST_F(GradientBinding, GradientHasStridesOfParameter) {
  at::Tensor last = torch::randn({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_(true);
  at::Tensor turned = torch::randn({3, 5}).t().requires_grad_(true);
  auto inner =
      std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{last, turned}, torch::optim::SGDOptions(0.5));
  DistributedOptimizer wrapped(engine, inner, NamedTensors{{"last", last}, {"turned", turned}});
  const at::Tensor x = torch::randn({2, 3, 4, 4});  // contiguous
  const at::Tensor y = torch::randn({5, 3});
  last.mutable_grad() = x.clone();
  ((turned * y).sum() + (last * x).sum() * 0.0).backward();
  wrapped.synchronize();
  EXPECT_TRUE(torch::equal(last.grad(), x));
  EXPECT_TRUE(torch::equal(turned.grad(), y));
  EXPECT_EQ(last.grad().strides(), last.strides());
  EXPECT_EQ(turned.grad().strides(), turned.strides());
}

TEST_F(GradientBinding, MixedTypesAreReducedInTheirTypes) {
  at::Tensor f = torch::ones({3}).requires_grad_(true);
  at::Tensor h = torch::ones({5}, torch::kBFloat16).requires_grad_(true);
  auto inner = std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{a, f, h}, torch::optim::SGDOptions(0.5));
  DistributedOptimizer wrapped(engine, inner, NamedTensors{{"a", a}, {"f", f}, {"h", h}});
  (a.sum() + f.sum() * 2 + h.sum().to(torch::kFloat32) * 4).backward();
  wrapped.step();
  EXPECT_EQ(h.grad().scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(torch::equal(h.grad(), torch::full({5}, 4, torch::kBFloat16)));
  EXPECT_TRUE(torch::equal(f.grad(), torch::full({3}, 2.0F)));
}

}  // namespace
