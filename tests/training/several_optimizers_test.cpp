// A parameter that two optimizers hold, each in a DistributedOptimizer: both reduce its gradient, each the one of its
// own backward pass, and neither what the other has made of it. Gradients are constants, so weights are known exactly.
#include <gmock/gmock.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <memory>
#include <thread>

#include "kolo/context.h"
#include "kolo/error.h"
#include "kolo/spi/engine.h"
#include "kolo/torch/torch.h"
#include "support/local_ranks.h"

namespace kolo::test {
namespace {

constexpr double kRate = 0.0078125;
constexpr std::int64_t kElements = 16 * 1024;  // several buckets, and enough to be reduced in place

using Tensors = std::vector<at::Tensor>;

class Model {
 public:
  explicit Model(int tensors) {
    for (int i = 0; i < tensors; ++i) weights.push_back(torch::ones({kElements}).requires_grad_(true));
  }
  [[nodiscard]] Tensors pick(const std::vector<std::size_t>& which) const {
    Tensors some;
    for (const auto i : which) some.push_back(weights[i]);
    return some;
  }
  // The gradient of weight i is (rank + 1) * (i + 1). What full buckets become is there afterwards, as after a pass
  // that takes its time.
  void backward(Context& context) const {
    at::Tensor loss = torch::zeros({});
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double slope = (context.rank() + 1.0) * (static_cast<double>(i) + 1);
      if (weights[i].requires_grad()) loss = loss + (weights[i] * torch::full({kElements}, slope)).sum();
    }
    loss.backward();
    static_cast<void>(allreduce_metrics(context, {0.0}, ReduceOp::average, "all here"));
    for (int i = 0; i < 1000; ++i) context.engine().progress();
    static_cast<void>(allreduce_metrics(context, {0.0}, ReduceOp::average, "all reduced"));
  }
  void expect(std::size_t i, double updates, int ranks) const {
    const double sum = ranks * (ranks + 1) / 2.0 * (static_cast<double>(i) + 1);
    const auto wanted = static_cast<float>(1 - updates * kRate * sum);
    EXPECT_TRUE(weights[i].eq(wanted).all().item<bool>())
        << "weight " << i << " is " << weights[i][0].item<float>() << ", not " << wanted;
  }
  Tensors weights;
};

// With a step of its own, of the optimizer inside.
struct Training {
  Training(Context& context, const Model& model, const std::vector<std::size_t>& which, DistributedOptions options)
      : optimizer(context, std::make_shared<torch::optim::SGD>(model.pick(which), torch::optim::SGDOptions(kRate)),
                  named(model, which), options) {}
  static NamedTensors named(const Model& model, const std::vector<std::size_t>& which) {
    NamedTensors tensors;
    for (const auto i : which) tensors.emplace_back("w" + std::to_string(i), model.weights[i]);
    return tensors;
  }
  DistributedOptimizer optimizer;
};

DistributedOptions sums(bool shared) {
  DistributedOptions options;
  options.op = ReduceOp::sum;
  options.bucket_bytes = kElements * sizeof(float);
  options.shared_gradients = shared;
  return options;
}

// The hook of the optimizer that was made first runs first. Gradients are made in the memory of the optimizer that
// stepped last.
TEST(SeveralOptimizers, EachReducesGradientOfCommonParameter) {
  constexpr int kSteps = 6;
  for (const bool shared : {false, true}) {
    for (const bool first_steps_first : {false, true}) {
      on_ranks(2, [&](Context& context) {
        const Model model(3);
        Training one(context, model, {2, 1}, sums(shared));
        Training other(context, model, {0, 2}, sums(shared));
        for (int step = 0; step < kSteps; ++step) {
          one.optimizer.zero_grad();
          other.optimizer.zero_grad();
          model.backward(context);
          (first_steps_first ? one : other).optimizer.step();
          (first_steps_first ? other : one).optimizer.step();
        }
        model.expect(0, kSteps, 2);
        model.expect(1, kSteps, 2);
        model.expect(2, 2 * kSteps, 2);
      });
    }
  }
}

// In the uneven step, two ranks have no batch. The second optimizer finds the result of the first there, and must not
// reduce it as a gradient of the rank.
TEST(SeveralOptimizers, ResultOfOneIsNotReducedAgainByTheOther) {
  for (const bool shared : {false, true}) {
    on_ranks(3, [&](Context& context) {
      const Model model(1);
      Training one(context, model, {0}, sums(shared));
      Training two(context, model, {0}, sums(shared));
      for (int step = 0; step < 4; ++step) {
        one.optimizer.zero_grad();
        const bool uneven = step == 2;
        if (!uneven || context.rank() == 0) (model.weights[0] * (context.rank() + 1.0)).sum().backward();
        for (auto* training : {&one, &two}) {
          training->optimizer.step();
          EXPECT_EQ(model.weights[0].grad()[0].item<float>(), uneven ? 1 : 6) << step;
        }
      }
    });
  }
}

TEST(SeveralOptimizers, OtherParametersTrainWhileCommonParameterIsFrozen) {
  on_ranks(2, [](Context& context) {
    const Model model(3);
    Training one(context, model, {0, 1}, sums(false));
    auto two = std::make_unique<Training>(context, model, std::vector<std::size_t>{0, 2}, sums(false));
    for (int step = 0; step < 8; ++step) {
      if (step == 2) model.weights[0].requires_grad_(false);
      if (step == 5) two = std::make_unique<Training>(context, model, std::vector<std::size_t>{0, 2}, sums(false));
      for (const std::size_t i : {0, 1, 2}) {  // what was reduced stays at the frozen one
        if (model.weights[i].requires_grad()) model.weights[i].mutable_grad().reset();
      }
      model.backward(context);
      one.optimizer.step();
      two->optimizer.step();
    }
    model.expect(1, 8, context.size());
    model.expect(2, 8, context.size());
  });
}

// With zero_grad(false), backward adds to the result of the other optimizer's round, which lies in that optimizer's
// bucket. The table of one optimizer changes, so the gradients are read again at the end of the round.
TEST(SeveralOptimizers, EachUpdatesCommonParameterWithGradientsZeroedInPlace) {
  constexpr int kSteps = 9;
  for (const int ranks : {2, 3}) {
    on_ranks(ranks, [&](Context& context) {
      const Model model(5);
      Training one(context, model, {4, 2}, sums(false));
      Training other(context, model, {0, 1, 3, 4}, sums(false));
      for (int step = 0; step < kSteps; ++step) {
        if (step >= 3) model.weights[2].requires_grad_(step % 2 != 0);
        one.optimizer.zero_grad(false);
        other.optimizer.zero_grad(false);
        model.backward(context);
        one.optimizer.step();
        other.optimizer.step();
      }
      for (const std::size_t i : {0, 1, 3}) model.expect(i, kSteps, ranks);
      model.expect(2, 6, ranks);
      model.expect(4, 2 * kSteps, ranks);
    });
  }
}

TEST(SeveralOptimizers, ParameterTableOfOneMayChangeDuringTraining) {
  on_ranks(2, [](Context& context) {
    const Model model(3);
    Training one(context, model, {2, 1}, sums(true));
    for (int step = 0; step < 3; ++step) {
      one.optimizer.zero_grad();
      model.backward(context);
      one.optimizer.step();
    }
    Training other(context, model, {0, 2}, sums(true));
    for (int step = 0; step < 4; ++step) {
      model.weights[1].requires_grad_(step % 2 == 0);
      one.optimizer.zero_grad();
      other.optimizer.zero_grad();
      model.backward(context);
      other.optimizer.step();
      one.optimizer.step();
    }
    model.expect(0, 4, 2);
    model.expect(1, 3 + 2, 2);
    model.expect(2, 3 + 2 * 4, 2);
  });
}

TEST(SeveralOptimizers, TwoThreadsTrainWithTheirOwnOptimizerAndScaler) {
  on_ranks(2, [](Context& context) {
    const Model left(1);
    const Model right(1);
    Training of_left(context, left, {0}, sums(false));
    Training of_right(context, right, {0}, sums(false));
    const auto train = [&](Training& training, const Model& model) {
      GradScaler scaler(context, {.init_scale = 4});
      for (int step = 0; step < 20; ++step) {
        training.optimizer.zero_grad();
        scaler.scale(model.weights[0].sum() * (context.rank() + 1)).backward();
        EXPECT_TRUE(scaler.step(training.optimizer));
        scaler.update();
      }
    };
    std::thread beside([&] { train(of_left, left); });
    train(of_right, right);
    beside.join();
    left.expect(0, 20, 2);
    right.expect(0, 20, 2);
  });
}

}  // namespace
}  // namespace kolo::test
