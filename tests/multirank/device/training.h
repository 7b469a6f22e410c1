#pragma once
// A training program on simulated devices whose results are known: every rank contributes numbers that say which rank,
// tensor and step they belong to, and now and then nothing.
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <vector>

#include "multirank/device/device_world.h"

namespace kolo::test {

inline const std::vector<std::int64_t> kDeviceCounts{5, 1000, 0, 64, 3000, 1, 777, 20000};
inline const std::vector<std::int64_t> kSecondCounts{5000, 64, 9000};  // of a second optimizer

struct DeviceProgram {
  std::uint64_t seed = 1;
  bool side_stream = false;  // backward in another stream than the update
  unsigned missing = 0;      // of 8 gradients
  int steps = 4;
  bool two = false;      // optimizers, which one backward pass feeds
  unsigned changes = 0;  // of 8 steps and ranks: it says that its table has changed
  bool stay = false;     // contributions, until the backward pass that follows what reads results

  // A number for each of these.
  [[nodiscard]] std::uint_fast32_t draw(int rank, std::size_t index, int step) const {
    std::seed_seq words{seed, static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(index),
                        static_cast<std::uint64_t>(step)};
    std::minstd_rand random(words);
    return random();
  }
  [[nodiscard]] bool contributes(int rank, std::size_t index, int step) const {
    return missing == 0 || draw(rank, index, step) % 8 >= missing;
  }
  [[nodiscard]] bool changes_table(int rank, int step) const { return draw(rank, 100, step) % 8 < changes; }
  // Which of the two is finished first: alike on all ranks.
  [[nodiscard]] bool second_first(int step) const { return draw(0, 101, step) % 2 == 0; }
  static float value(int rank, std::size_t index, int step) {
    return static_cast<float>((rank + 1) * 8 + static_cast<int>(index) + 16 * step);
  }
  [[nodiscard]] float mean(int size, std::size_t index, int step) const {
    float sum = 0;
    for (int rank = 0; rank < size; ++rank) sum += contributes(rank, index, step) ? value(rank, index, step) : 0;
    return sum / static_cast<float>(size);
  }
};

struct FoundGradient {
  int step = 0;
  std::size_t index = 0;
  std::shared_ptr<std::vector<float>> values;
};

// A second optimizer beside the one that is looked at; nothing where the program has one only.
class SecondOptimizer {
 public:
  SecondOptimizer(DeviceWorld& world, Context& context, const DeviceProgram& program) : rank_(context.rank()) {
    if (!program.two) return;
    model_.emplace(world, rank_, kSecondCounts, program.side_stream);
    reducer_ = context.engine().make_reducer(model_->table(), model_->options());
  }
  void backward() {
    if (!reducer_) return;
    model_->begin_backward();
    for (std::size_t index = 0; index < kSecondCounts.size(); ++index) {
      model_->make(index, static_cast<float>(rank_));
      reducer_->contribute(index, model_->data(index), model_->backward());
    }
  }
  void finish() {
    if (!reducer_) return;
    reducer_->finish(model_->user());
    found_.push_back(model_->use(reducer_->gradient(2)));
  }
  void check(DeviceWorld& world) {
    if (!reducer_) return;
    for (const Stream stream : {model_->backward(), model_->user()}) {
      EXPECT_EQ(world.runtime()->api().stream_synchronize(stream.handle), cuda::kSuccess);
    }
    const float mean = static_cast<float>(world.size() - 1) / 2;
    for (const auto& values : found_) EXPECT_EQ(far_from(mean, *values), 0) << "of the second optimizer";
  }

 private:
  int rank_;
  std::optional<DeviceModel> model_;
  std::unique_ptr<GradientReducer> reducer_;
  std::vector<std::shared_ptr<std::vector<float>>> found_;
};

// What one rank found, once its device has run.
inline std::vector<FoundGradient> train(DeviceWorld& world, Context& context, const DeviceProgram& program) {
  DeviceModel model(world, context.rank(), kDeviceCounts, program.side_stream);
  ReducerOptions options = model.options();
  options.contributions_stay = program.stay;
  auto reducer = context.engine().make_reducer(model.table(), options);
  SecondOptimizer second(world, context, program);
  std::vector<FoundGradient> found;
  for (int step = 0; step < program.steps; ++step) {
    if (program.changes_table(context.rank(), step)) reducer->change_table(model.table());
    model.begin_backward();
    for (std::size_t index = kDeviceCounts.size(); index-- > 0;) {
      if (!program.contributes(context.rank(), index, step)) continue;
      model.make(index, DeviceProgram::value(context.rank(), index, step));
      reducer->contribute(index, model.data(index), model.backward());
    }
    second.backward();
    if (program.second_first(step)) second.finish();
    reducer->finish(model.user());
    if (!program.second_first(step)) second.finish();
    for (std::size_t index = 0; index < kDeviceCounts.size(); ++index) {
      bool somebody = false;
      for (int rank = 0; rank < world.size(); ++rank) somebody = somebody || program.contributes(rank, index, step);
      EXPECT_EQ(reducer->contributed(index), somebody) << "tensor " << index << " step " << step;
      found.push_back({step, index, model.use(reducer->gradient(index))});
    }
  }
  for (const Stream stream : {model.backward(), model.user()}) {
    const cuda::DeviceGuard guard(*world.runtime(), stream.device);
    EXPECT_EQ(world.runtime()->api().stream_synchronize(stream.handle), cuda::kSuccess);
  }
  second.check(world);
  return found;
}

// Trains on all ranks and compares.
inline void check_training(const DeviceWorld::Options& options, const DeviceProgram& program) {
  const int size = static_cast<int>(options.hosts.size());
  DeviceWorld world(options);
  std::vector<std::vector<FoundGradient>> found(options.hosts.size());
  world.run(
      [&](Context& context) { found[static_cast<std::size_t>(context.rank())] = train(world, context, program); });
  for (const int device : world.device().contexts()) {
    EXPECT_GE(device, options.free_devices) << "is nobody's, and was used";
  }
  for (const auto& rank : found) {
    EXPECT_EQ(rank.size(), kDeviceCounts.size() * static_cast<std::size_t>(program.steps));
    for (const auto& [step, index, values] : rank) {
      const bool nowhere = program.stay && size == 1 && !program.contributes(0, index, step);
      ASSERT_EQ(values->size(), nowhere ? 0 : static_cast<std::size_t>(kDeviceCounts[index]));
      EXPECT_EQ(far_from(program.mean(size, index, step), *values), 0) << "tensor " << index << " step " << step;
    }
  }
}

inline Config small_buckets(CoordinatorMode mode = CoordinatorMode::automatic) {
  auto config = quick(mode);
  config.bucket_bytes = 16 * 1024;
  config.last_bucket_bytes = 1024;
  return config;
}

struct TrainingWorld {
  Hosts hosts;
  bool side_stream = false;
  unsigned missing = 0;
  bool stay = false;
};

// In any order that the waits allow, and whoever drives the engine. `options`: without seed and coordinator.
inline void check_orders(const TrainingWorld& world, DeviceWorld::Options options, std::uint64_t seeds) {
  constexpr CoordinatorMode kModes[] = {CoordinatorMode::automatic, CoordinatorMode::always, CoordinatorMode::never};
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    options.seed = seed;
    options.config.coordinator = kModes[seed % 3];
    check_training(options,
                   {.seed = seed, .side_stream = world.side_stream, .missing = world.missing, .stay = world.stay});
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

// Gradients on devices become, bit for bit, what the same on the host do.
inline void expect_bits_of_the_host(DeviceWorld& world, double prescale = 1, double postscale = 1) {
  world.run([&](Context& context) {
    const std::vector<std::int64_t> counts{777, 20000, 3};
    DeviceModel model(world, context.rank(), counts, true);
    auto options = model.options();
    options.prescale = prescale;
    options.postscale = postscale;
    auto on_device = context.engine().make_reducer(model.table(), options);
    auto table = model.table();
    for (auto& row : table) row.on_device = false;
    auto on_host = context.engine().make_reducer(table, options);
    for (int step = 0; step < 3; ++step) {
      model.begin_backward();
      std::vector<std::vector<float>> gradients;
      for (std::size_t index = 0; index < counts.size(); ++index) {
        const float value = 0.1F * static_cast<float>(context.rank() + 7 * step) + 0.01F * static_cast<float>(index);
        gradients.emplace_back(static_cast<std::size_t>(counts[index]), value);
        model.make(index, value);
        on_device->contribute(index, model.data(index), model.backward());
        on_host->contribute(index, gradients.back().data());
      }
      on_device->finish(model.user());
      on_host->finish();
      for (std::size_t index = 0; index < counts.size(); ++index) {
        const auto found = model.use(on_device->gradient(index));
        ASSERT_EQ(world.runtime()->api().stream_synchronize(model.user().handle), cuda::kSuccess);
        const auto wanted = on_host->gradient(index);
        EXPECT_EQ(std::memcmp(found->data(), wanted.data(), wanted.size()), 0)
            << "tensor " << index << " step " << step;
      }
    }
  });
}

}  // namespace kolo::test
