// A DistributedOptimizer where a program expects the torch::optim::Optimizer that it wraps.
#include <gmock/gmock.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>
#include <torch/types.h>

#include <cmath>
#include <map>
#include <sstream>

#include "kolo/context.h"
#include "kolo/error.h"
#include "kolo/torch/torch.h"
#include "support/local_ranks.h"
#include "training/one_weight.h"

namespace kolo::test {
namespace {

using testing::HasSubstr;
using torch::optim::SGDOptions;

// The gradient of one_weight.h's model, averaged over two ranks.
constexpr double kGradient = 1.5;

SGDOptions& sgd_options(torch::optim::Optimizer& optimizer, std::size_t group = 0) {
  return static_cast<SGDOptions&>(optimizer.param_groups().at(group).options());
}

double value_of(const at::Tensor& weight) { return weight.detach()[0].item<double>(); }

std::shared_ptr<torch::optim::SGD> plain_sgd(const at::Tensor& weight, double rate) {
  return std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{weight}, SGDOptions(rate));
}

// One weight, 1 at first, plain SGD.
struct Plain {
  explicit Plain(Context& context, double rate = 0.5)
      : weight(torch::ones({4}).requires_grad_(true)),
        inner(plain_sgd(weight, rate)),
        optimizer(context, inner, NamedTensors{{"weight", weight}}),
        rank(context.rank()) {}
  void backward() { (weight * (rank + 1)).sum().backward(); }

  at::Tensor weight;
  std::shared_ptr<torch::optim::SGD> inner;
  DistributedOptimizer optimizer;
  int rank;
};

// A second weight, 1 at first, and the group with which it comes.
struct Added {
  void backward(int rank) const { (weight * (rank + 1)).sum().backward(); }
  [[nodiscard]] double value_after_a_step() const { return 1 - rate * kGradient; }

  double rate = 0.25;
  at::Tensor weight = torch::ones({2}).requires_grad_(true);
  torch::optim::OptimizerParamGroup group{{weight}, std::make_unique<SGDOptions>(rate)};
};

TEST(DistributedOptimizer, StepThroughTheBaseClassReducesGradients) {
  on_ranks(2, [](Context& context) {
    Plain plain(context);
    torch::optim::Optimizer& base = plain.optimizer;
    for (int step = 1; step <= 3; ++step) {
      base.zero_grad();
      plain.backward();
      base.step();
      EXPECT_EQ(value_of(plain.weight), 1 - step * 0.5 * kGradient);
    }
  });
}

TEST(DistributedOptimizer, ZeroGradThroughTheBaseClassStartsTheNextRound) {
  for (const bool set_to_none : {true, false}) {
    on_ranks(2, [&](Context& context) {
      Plain plain(context);
      torch::optim::Optimizer& base = plain.optimizer;
      for (int step = 1; step <= 4; ++step) {
        base.zero_grad(set_to_none);
        plain.backward();
        if (step % 2 == 0) plain.optimizer.synchronize();
        base.step();
        EXPECT_EQ(value_of(plain.weight), 1 - step * 0.5 * kGradient) << set_to_none;
      }
    });
  }
}

// The expected rates are those that the scheduler gives to an optimizer of its own.
TEST(DistributedOptimizer, SchedulerOnWrapperChangesRateOfUpdate) {
  on_ranks(2, [](Context& context) {
    Plain plain(context, 0.5);
    const auto reference = plain_sgd(torch::ones({4}), 0.5);
    torch::optim::StepLR scheduler(plain.optimizer, /*step_size=*/2, /*gamma=*/0.5);
    torch::optim::StepLR reference_scheduler(*reference, /*step_size=*/2, /*gamma=*/0.5);
    double expected = 1;
    for (int step = 0; step < 7; ++step) {
      const double rate = reference->param_groups()[0].options().get_lr();
      plain.optimizer.zero_grad();
      plain.backward();
      plain.optimizer.step();
      EXPECT_EQ(plain.inner->param_groups()[0].options().get_lr(), rate);
      expected -= rate * kGradient;
      EXPECT_EQ(value_of(plain.weight), expected);
      scheduler.step();
      reference_scheduler.step();
    }
    EXPECT_LT(plain.inner->param_groups()[0].options().get_lr(), 0.25);
  });
}

TEST(DistributedOptimizer, RateSetOnEitherOptimizerTakesEffect) {
  on_ranks(2, [](Context& context) {
    Plain plain(context, 0.5);
    torch::optim::Optimizer& base = plain.optimizer;
    const auto step = [&] {
      const double before = value_of(plain.weight);
      plain.optimizer.zero_grad();
      plain.backward();
      plain.optimizer.step();
      return (before - value_of(plain.weight)) / kGradient;  // the rate
    };
    EXPECT_EQ(step(), 0.5);
    base.param_groups()[0].options().set_lr(0.25);
    EXPECT_EQ(step(), 0.25);
    sgd_options(*plain.inner).lr(0.125);
    EXPECT_EQ(step(), 0.125);
    EXPECT_EQ(base.param_groups()[0].options().get_lr(), 0.125);
    plain.optimizer.param_groups()[0].options().set_lr(0.0625);
    EXPECT_EQ(plain.optimizer.optimizer().param_groups()[0].options().get_lr(), 0.0625);
    base.param_groups()[0].options().set_lr(1);  // the same value on both sides is no conflict
    sgd_options(*plain.inner).lr(1);
    EXPECT_EQ(step(), 1);
  });
}

TEST(DistributedOptimizer, OptionsOfBothSidesAreMergedFieldByField) {
  on_ranks(2, [](Context& context) {
    Plain plain(context, 0.5);
    torch::optim::Optimizer& base = plain.optimizer;
    base.param_groups()[0].options().set_lr(0.25);  // as a scheduler does
    sgd_options(*plain.inner).momentum(0.5);
    plain.optimizer.zero_grad();
    plain.backward();
    plain.optimizer.step();
    EXPECT_EQ(sgd_options(base).momentum(), 0.5);
    EXPECT_EQ(sgd_options(*plain.inner).lr(), 0.25);
    plain.optimizer.zero_grad();
    plain.backward();
    plain.optimizer.step();
    EXPECT_EQ(value_of(plain.weight), 1 - 0.25 * kGradient * (1 + 1.5));  // the second step has momentum
  });
}

TEST(DistributedOptimizer, ConflictingRatesAreUsageErrorBeforeAnyWeightChanges) {
  on_ranks(2, [](Context& context) {
    Plain plain(context, 0.5);
    torch::optim::Optimizer& base = plain.optimizer;
    base.param_groups()[0].options().set_lr(0.25);
    sgd_options(*plain.inner).lr(0.75);
    plain.backward();
    const auto told = error_of<UsageError>([&] { plain.optimizer.step(); });
    EXPECT_THAT(told, HasSubstr("parameter group 0: the learning rate was changed to 0.25"));
    EXPECT_EQ(value_of(plain.weight), 1);
    sgd_options(*plain.inner).lr(0.25);
    plain.optimizer.step();
    EXPECT_EQ(value_of(plain.weight), 1 - 0.25 * kGradient);
  });
}

TEST(DistributedOptimizer, SavesAndLoadsCheckpointsOfWrappedOptimizer) {
  on_ranks(2, [](Context& context) {
    std::stringstream from_outer, from_inner;
    {
      Training training(context);  // momentum 0.5, rate 0.125
      training.step();
      torch::optim::Optimizer& base = training.optimizer;
      base.param_groups()[0].options().set_lr(0.25);
      torch::save(training.optimizer, from_outer);
      torch::save(*training.inner, from_inner);
    }
    for (std::stringstream* const saved : {&from_outer, &from_inner}) {
      Training training(context);
      torch::load(training.optimizer, *saved);
      torch::optim::Optimizer& base = training.optimizer;
      EXPECT_EQ(base.param_groups()[0].options().get_lr(), 0.25);
      training.step();
      // Momentum of the saved step: 0.5 * 1.5 + 1.5.
      EXPECT_EQ(value_of(training.weight), 1 - 0.25 * (0.5 * kGradient + kGradient));
    }
  });
}

TEST(DistributedOptimizer, StateIsBroadcastThroughTheWrapper) {
  on_ranks(2, [](Context& context) {
    Training training(context);
    training.step();
    torch::optim::Optimizer& base = training.optimizer;
    base.param_groups()[0].options().set_lr(context.rank() == 0 ? 0.25 : 0.5);
    broadcast_optimizer_state(context, training.optimizer);
    EXPECT_EQ(base.param_groups()[0].options().get_lr(), 0.25);
    EXPECT_EQ(training.inner->param_groups()[0].options().get_lr(), 0.25);
    EXPECT_EQ(training.optimizer.state().size(), 1U);
    training.step();
    training.expect_equal_weights();
  });
}

TEST(DistributedOptimizer, GroupAddedThroughTheBaseClassIsReduced) {
  on_ranks(2, [](Context& context) {
    Plain plain(context, 0.5);
    const at::Tensor added = torch::ones({2}).requires_grad_(true);
    torch::optim::Optimizer& base = plain.optimizer;
    base.add_param_group(torch::optim::OptimizerParamGroup({added}, std::make_unique<SGDOptions>(0.25)));
    for (int step = 1; step <= 2; ++step) {
      base.zero_grad();
      plain.backward();
      (added * (context.rank() + 1)).sum().backward();
      base.step();
      EXPECT_EQ(value_of(plain.weight), 1 - step * 0.5 * kGradient);
      EXPECT_EQ(value_of(added), 1 - step * 0.25 * kGradient);
    }
    EXPECT_EQ(plain.inner->param_groups().size(), 2U);
    EXPECT_EQ(sgd_options(*plain.inner, 1).lr(), 0.25);
  });
}

// Clipping needs synchronize(), which must know of groups that came through the base class.
TEST(DistributedOptimizer, GroupAddedThroughTheBaseClassIsReducedBySynchronize) {
  on_ranks(2, [](Context& context) {
    Plain plain(context, 0.5);
    const Added added;
    torch::optim::Optimizer& base = plain.optimizer;
    base.add_param_group(added.group);
    plain.backward();
    added.backward(plain.rank);
    plain.optimizer.synchronize();
    EXPECT_EQ(added.weight.grad()[0].item<double>(), kGradient);
    plain.optimizer.step();
    EXPECT_EQ(value_of(added.weight), added.value_after_a_step());
    EXPECT_EQ(value_of(plain.weight), 1 - 0.5 * kGradient);
  });
}

TEST(DistributedOptimizer, ZeroGradClearsGroupAddedThroughTheBaseClass) {
  on_ranks(2, [](Context& context) {
    Plain plain(context, 0.5);
    const Added added;
    (added.weight * 8).sum().backward();  // before it belongs to the optimizer
    torch::optim::Optimizer& base = plain.optimizer;
    base.add_param_group(added.group);
    plain.optimizer.zero_grad();
    EXPECT_FALSE(added.weight.grad().defined());
    plain.backward();
    added.backward(plain.rank);
    plain.optimizer.step();
    EXPECT_EQ(value_of(added.weight), added.value_after_a_step());
  });
}

TEST(DistributedOptimizer, GradientOfParameterAddedAfterSynchronizeIsUsageErrorBeforeAnyWeightChanges) {
  enum class From { through_wrapper, through_base, in_wrapped, thawed };
  for (const From from : {From::through_wrapper, From::through_base, From::in_wrapped, From::thawed}) {
    on_ranks(2, [&](Context& context) {
      Plain plain(context, 0.5);
      const Added added;
      torch::optim::Optimizer& base = plain.optimizer;
      if (from == From::thawed) {
        added.weight.requires_grad_(false);
        plain.optimizer.add_param_group(added.group);
      }
      plain.backward();
      plain.optimizer.synchronize();
      if (from == From::through_wrapper) plain.optimizer.add_param_group(added.group, {{"added", added.weight}});
      if (from == From::through_base) base.add_param_group(added.group);
      if (from == From::in_wrapped) plain.inner->add_param_group(added.group);
      added.weight.requires_grad_(true);
      added.backward(plain.rank);
      EXPECT_THAT(error_of<UsageError>([&] { plain.optimizer.step(); }),
                  HasSubstr("was added after synchronize(), so its gradient is not reduced"));
      EXPECT_EQ(value_of(added.weight), 1);
      EXPECT_EQ(value_of(plain.weight), 1);
      plain.optimizer.zero_grad();  // the next step trains it
      plain.backward();
      added.backward(plain.rank);
      plain.optimizer.step();
      EXPECT_EQ(value_of(added.weight), added.value_after_a_step());
      EXPECT_EQ(value_of(plain.weight), 1 - 0.5 * kGradient);
    });
  }
}

TEST(DistributedOptimizer, DifferentGroupsAddedOnBothSidesAreUsageError) {
  on_ranks(2, [](Context& context) {
    Plain plain(context, 0.5);
    torch::optim::Optimizer& base = plain.optimizer;
    base.add_param_group(Added().group);
    plain.inner->add_param_group(Added().group);
    EXPECT_THAT(error_of<UsageError>([&] { plain.optimizer.step(); }), HasSubstr("groups were added or removed"));
    EXPECT_EQ(value_of(plain.weight), 1);
  });
}

TEST(DistributedOptimizer, RateSetOnWrapperRemainsInWrappedOptimizerAfterItsEnd) {
  on_ranks(2, [](Context& context) {
    Plain plain(context, 0.5);
    static_cast<torch::optim::Optimizer&>(plain.optimizer).param_groups()[0].options().set_lr(0.125);
    plain.optimizer.detach();
    EXPECT_EQ(sgd_options(*plain.inner).lr(), 0.125);
  });
}

TEST(DistributedOptimizer, NotANumberAsRateIsNoConflict) {
  on_ranks(2, [](Context& context) {
    Plain plain(context, 0.5);
    torch::optim::Optimizer& base = plain.optimizer;
    base.param_groups()[0].options().set_lr(std::nan(""));
    for (int step = 0; step < 2; ++step) {
      plain.optimizer.zero_grad();
      plain.backward();
      plain.optimizer.step();
    }
    EXPECT_TRUE(std::isnan(value_of(plain.weight)));
    EXPECT_TRUE(std::isnan(sgd_options(*plain.inner).lr()));
  });
}

// A new head under the name of the old one, which is in no group any more.
TEST(DistributedOptimizer, NameOfARemovedParameterIsFree) {
  on_ranks(2, [](Context& context) {
    Plain plain(context, 0.5);
    const auto head = [] { return torch::ones({2}).requires_grad_(true); };
    const at::Tensor first = head(), second = head();
    const auto group = [](const at::Tensor& tensor) {
      return torch::optim::OptimizerParamGroup({tensor}, std::make_unique<SGDOptions>(0.25));
    };
    plain.optimizer.add_param_group(group(first), {{"head", first}});
    EXPECT_THAT(error_of<UsageError>([&] {
                  plain.optimizer.add_param_group(group(second), {{"head", second}});
                }),
                HasSubstr("two parameters have the name 'head'"));
    plain.optimizer.param_groups().pop_back();
    plain.optimizer.add_param_group(group(second), {{"head", second}});
    plain.backward();
    (second * (context.rank() + 1)).sum().backward();
    plain.optimizer.step();
    EXPECT_EQ(value_of(second), 1 - 0.25 * kGradient);
    EXPECT_EQ(value_of(first), 1);
  });
}

TEST(DistributedOptimizer, TakesOwnedAndBorrowedOptimizersAndEveryFormOfModel) {
  on_ranks(2, [](Context& context) {
    torch::nn::Sequential model(torch::nn::Linear(3, 2), torch::nn::Linear(2, 1));
    const auto step = [&](DistributedOptimizer& optimizer) {
      broadcast_parameters(context, model);
      const at::Tensor before = model->parameters()[0].detach().clone();
      optimizer.zero_grad();
      model->forward(torch::full({1, 3}, context.rank() + 1.0)).sum().backward();
      optimizer.step();
      EXPECT_FALSE(model->parameters()[0].equal(before));
      const auto sum = model->parameters()[0].sum().item<double>();
      EXPECT_EQ(allreduce_metrics(context, {sum}, ReduceOp::max, "sum")[0], sum);  // equal on both ranks
      optimizer.detach();
    };
    const SGDOptions options(0.125);
    torch::optim::SGD borrowed(model->parameters(), options);
    DistributedOptimizer a(context, borrowed, model);
    step(a);
    DistributedOptimizer b(context, torch::optim::SGD(model->parameters(), options), *model);
    step(b);
    DistributedOptimizer c(context, FusedSGD(model->parameters(), options), model.ptr());
    step(c);
    DistributedOptimizer d(context, std::make_unique<torch::optim::SGD>(model->parameters(), options),
                           model->named_parameters());
    step(d);
    const auto shared = std::make_shared<torch::optim::AdamW>(model->parameters(), 0.125);
    DistributedOptimizer e(context, shared, named_tensors(model->named_parameters()));
    step(e);
    std::map<std::string, at::Tensor> map;
    for (const auto& item : model->named_parameters()) map.emplace(item.key(), item.value());
    DistributedOptimizer f(context, shared, map, {.compare_weights = false});
    step(f);
    const at::Tensor first = model->parameters()[0];
    DistributedOptimizer g(context, torch::optim::SGD({first}, options), {{"first", first}});
    step(g);
  });
}

TEST(DistributedOptimizer, NullPointerOrDistributedOptimizerIsUsageError) {
  on_ranks(2, [](Context& context) {
    Plain plain(context);
    const NamedTensors names{{"weight", plain.weight}};
    EXPECT_THAT(
        error_of<UsageError>([&] { DistributedOptimizer(context, std::shared_ptr<torch::optim::SGD>(), names); }),
        HasSubstr("the pointer to the optimizer is null"));
    torch::optim::Optimizer& base = plain.optimizer;
    EXPECT_THAT(error_of<UsageError>([&] { DistributedOptimizer(context, base, names); }),
                HasSubstr("is a DistributedOptimizer itself"));
    EXPECT_THAT(error_of<UsageError>(
                    [&] { DistributedOptimizer(context, *plain.inner, std::shared_ptr<torch::nn::LinearImpl>()); }),
                HasSubstr("the pointer to the model is null"));
  });
}

TEST(GradScaler, StepsADistributedOptimizerThroughTheBaseClass) {
  on_ranks(2, [](Context& context) {
    Plain plain(context, 0.5);
    torch::optim::Optimizer& base = plain.optimizer;
    GradScaler scaler(context, {.init_scale = 4});
    scaler.scale((plain.weight * (context.rank() + 1)).sum()).backward();
    scaler.unscale_(base);
    EXPECT_EQ(plain.weight.grad()[0].item<double>(), kGradient);
    EXPECT_TRUE(scaler.step(base));
    scaler.update();
    EXPECT_EQ(value_of(plain.weight), 1 - 0.5 * kGradient);
  });
}

}  // namespace
}  // namespace kolo::test
