// What a Checkpointer saves of each kind of object.
#include <gmock/gmock.h>

#include <map>
#include <string>

#include "kolo/error.h"
#include "training/checkpointed_program.h"

namespace kolo::test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Of no kind that kolo knows: w -= 0.1 * (the sum of all gradients so far).
class SumOptimizer final : public torch::optim::Optimizer {
 public:
  explicit SumOptimizer(std::vector<at::Tensor> parameters)
      : Optimizer(std::move(parameters), std::make_unique<torch::optim::SGDOptions>(0.1)) {}
  at::Tensor step(LossClosure /*closure*/ = nullptr) override {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters().size(); ++i) {
      at::Tensor& parameter = parameters()[i];
      if (sums_.size() == i) sums_.push_back(torch::zeros_like(parameter));
      sums_[i] += parameter.grad();
      parameter -= 0.1 * sums_[i];
    }
    return {};
  }
  void save(torch::serialize::OutputArchive& archive) const override {
    for (std::size_t i = 0; i < sums_.size(); ++i) archive.write(std::to_string(i), sums_[i], /*is_buffer=*/true);
  }
  void load(torch::serialize::InputArchive& archive) override {
    sums_.assign(parameters().size(), {});
    for (std::size_t i = 0; i < sums_.size(); ++i) archive.read(std::to_string(i), sums_[i], /*is_buffer=*/true);
  }

 private:
  std::vector<at::Tensor> sums_;
};

TEST(Checkpointer, StateOfEachOptimizerIsRestored) {
  const std::map<std::string, MakeOptimizer> all = {
      {"Adam",
       [](auto p) { return std::make_unique<torch::optim::Adam>(p, torch::optim::AdamOptions(0.01).amsgrad(true)); }},
      {"AdamW", [](auto p) { return std::make_unique<torch::optim::AdamW>(p, torch::optim::AdamWOptions(0.01)); }},
      {"FusedAdamW", [](auto p) { return std::make_unique<FusedAdamW>(p, torch::optim::AdamWOptions(0.01)); }},
      {"RMSprop",
       [](auto p) {
         return std::make_unique<torch::optim::RMSprop>(
             p, torch::optim::RMSpropOptions(0.01).momentum(0.5).centered(true));
       }},
      {"Adagrad",
       [](auto p) { return std::make_unique<torch::optim::Adagrad>(p, torch::optim::AdagradOptions(0.01)); }},
      {"SumOptimizer", [](auto p) { return std::make_unique<SumOptimizer>(p); }},
      {"FusedSGD", [](auto p) { return std::make_unique<FusedSGD>(p, torch::optim::SGDOptions(0.05).momentum(0.9)); }}};
  for (const auto& [name, make] : all) {
    const TemporaryFolder folder;
    on_ranks(2, [&, &make = make](Context& context) {
      Program program(context, folder.path() / "run", {.every = 1000}, 1, make);
      (void)program.checkpoints.restore();
      program.run(3);
      (void)program.checkpoints.finish();
    });
    const at::Tensor expected = uninterrupted(2, 6, make);
    on_ranks(2, [&, &make = make, &name = name](Context& context) {
      Program program(context, folder.path() / "run", {.every = 1000}, 99, make);
      program.done = program.checkpoints.restore();
      program.run(6);
      EXPECT_TRUE(program.weights().equal(expected)) << name;
    });
  }
}

TEST(Checkpointer, CheckpointOfAnotherNetworkIsUsageErrorOnAllRanks) {
  const TemporaryFolder folder;
  write_steps(folder.path(), 2, {1});
  on_ranks(2, [&](Context& context) {
    torch::nn::Linear other(4, 8);
    Checkpointer checkpoints(context, folder.path(), {});
    checkpoints.add("model", other);
    EXPECT_THAT([&] { (void)checkpoints.restore(); },
                ThrowsMessage<UsageError>(HasSubstr("'model' has no tensor 'first.weight', but the checkpoint has")));
  });
}

struct Position {
  std::int64_t at = 0;
  void save(torch::serialize::OutputArchive& archive) const { archive.write("at", c10::IValue(at)); }
  void load(torch::serialize::InputArchive& archive) {
    c10::IValue value;
    archive.read("at", value);
    at = value.toInt();
  }
};

// Their parameters have the same names, and their files are split.
TEST(Checkpointer, TwoModelsWithOneOptimizerAreRestored) {
  const TemporaryFolder folder;
  const auto run = [&](bool saves) {
    on_ranks(2, [&](Context& context) {
      torch::nn::Linear first(3000, 3000);
      torch::nn::Linear second(3000, 3000);
      const double value = saves ? 1 : 0;
      {
        const at::NoGradGuard no_grad;
        for (auto& parameter : first->parameters()) parameter.fill_(value);
        for (auto& parameter : second->parameters()) parameter.fill_(2 * value);
      }
      NamedTensors named;
      for (const auto& each : first->named_parameters()) named.emplace_back("first." + each.key(), each.value());
      for (const auto& each : second->named_parameters()) named.emplace_back("second." + each.key(), each.value());
      std::vector<at::Tensor> parameters;
      for (const auto& each : named) parameters.push_back(each.second);
      torch::optim::SGD sgd(parameters, torch::optim::SGDOptions(0).momentum(0.9));
      DistributedOptimizer optimizer(context, sgd, named);
      Checkpointer checkpoints(context, folder.path(), {.every = 1000});
      checkpoints.add("net", first);
      checkpoints.add("net-ema", second);
      checkpoints.add("optimizer", optimizer);
      EXPECT_EQ(checkpoints.restore(), saves ? 0 : 1);
      if (saves) {
        (first->weight.sum() * 3 + second->weight.sum() * 4).backward();
        optimizer.step();
        checkpoints.step(1);
        (void)checkpoints.finish();
      }
      const auto momentum_of = [&](const at::Tensor& parameter) {
        auto& state = *sgd.state().at(parameter.unsafeGetTensorImpl());
        return static_cast<torch::optim::SGDParamState&>(state).momentum_buffer()[0][0].item<float>();
      };
      EXPECT_EQ(first->weight[0][0].item<float>(), 1);
      EXPECT_EQ(second->weight[0][0].item<float>(), 2);
      EXPECT_EQ(momentum_of(first->weight), 3);
      EXPECT_EQ(momentum_of(second->weight), 4);
    });
  };
  run(true);
  EXPECT_TRUE(fs::exists(folder.path() / "checkpoint-000000000001" / "net-ema-00002-of-00002.safetensors"));
  run(false);
}

TEST(Checkpointer, ObjectThatOnlyOneRankAddsIsMismatchError) {
  const TemporaryFolder folder;
  on_ranks(2, [&](Context& context) {
    Program program(context, folder.path(), {});
    Position position;
    if (context.rank() == 0) program.checkpoints.add("position", position);
    EXPECT_THAT([&] { (void)program.checkpoints.restore(); }, ThrowsMessage<MismatchError>(HasSubstr("position")));
  });
}

TEST(Checkpointer, MissingObjectIsUsageError) {
  const TemporaryFolder folder;
  write_steps(folder.path(), 1, {1});
  on_ranks(1, [&](Context& context) {
    Program program(context, folder.path(), {});
    GradScaler scaler(context);
    program.checkpoints.add("scaler", scaler);
    EXPECT_THAT([&] { (void)program.checkpoints.restore(); },
                ThrowsMessage<UsageError>(HasSubstr("the checkpoint has no 'scaler'")));
  });
}

TEST(Checkpointer, ObjectsOfTheProgramAndOfEachRankAreRestored) {
  const TemporaryFolder folder;
  const auto run = [&](int ranks, bool saves) {
    on_ranks(ranks, [&](Context& context) {
      Program program(context, folder.path(), {.every = 1000});
      Position common{saves ? 70 + context.rank() : -1};
      Position own{saves ? 10 + context.rank() : -1};
      GradScaler scaler(context);
      if (saves) scaler.load({512, 7});
      program.checkpoints.add("common", common);
      program.checkpoints.add("own", own, per_rank);
      program.checkpoints.add("scaler", scaler);
      if (saves) {
        (void)program.checkpoints.restore();
        program.run(1);
        (void)program.checkpoints.finish();
        return;
      }
      EXPECT_EQ(program.checkpoints.restore(), 1);
      EXPECT_EQ(common.at, 70);  // of rank 0
      EXPECT_EQ(own.at, context.rank() < 2 ? 10 + context.rank() : -1);
      EXPECT_EQ(scaler.state().scale, 512);
      EXPECT_EQ(scaler.state().good_steps, 7);
    });
  };
  run(2, true);
  run(3, false);
}

TEST(Checkpointer, BuffersAreThoseOfRank0) {
  const TemporaryFolder folder;
  at::Tensor mean;
  on_ranks(2, [&](Context& context) {
    Program program(context, folder.path(), {.every = 1000});
    (void)program.checkpoints.restore();
    program.run(3);
    (void)program.checkpoints.finish();
    if (context.rank() == 0) mean = program.net->norm->running_mean.clone();
  });
  on_ranks(2, [&](Context& context) {
    Program program(context, folder.path(), {.every = 1000}, 99);
    (void)program.checkpoints.restore();
    EXPECT_TRUE(program.net->norm->running_mean.equal(mean));
  });
}

}  // namespace
}  // namespace kolo::test
