// Rounds of gradients on simulated devices.
#include <gtest/gtest.h>

#include "multirank/device/device_world.h"
#include "support/sanitizers.h"

namespace kolo::test {
namespace {

const std::vector<std::int64_t> kCounts{5, 1000, 0, 64, 3000, 1, 777, 20000};
constexpr int kSteps = 4;

float value_of(int rank, std::size_t index, int step) {
  return static_cast<float>((rank + 1) * 8 + static_cast<int>(index) + 16 * step);
}

float mean_of(int size, std::size_t index, int step) {
  float sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += value_of(rank, index, step);
  return sum / static_cast<float>(size);
}

Config small_buckets(CoordinatorMode mode = CoordinatorMode::automatic) {
  auto config = quick(mode);
  config.bucket_bytes = 16 * 1024;
  config.last_bucket_bytes = 1024;
  return config;
}

struct Found {
  int step = 0;
  std::size_t index = 0;
  std::shared_ptr<std::vector<float>> values;
};

// The program of one rank. What it found can be looked at when the device has run.
std::vector<Found> train(DeviceWorld& world, Context& context, bool side_stream) {
  DeviceModel model(world, context.rank(), kCounts, side_stream);
  auto reducer = context.engine().make_reducer(model.table(), model.options());
  std::vector<Found> found;
  for (int step = 0; step < kSteps; ++step) {
    model.begin_backward();
    for (std::size_t index = kCounts.size(); index-- > 0;) {
      model.make(index, value_of(context.rank(), index, step));
      reducer->contribute(index, model.data(index), model.backward());
    }
    reducer->finish(model.user());
    for (std::size_t index = 0; index < kCounts.size(); ++index) {
      EXPECT_TRUE(reducer->contributed(index));
      found.push_back({step, index, model.use(reducer->gradient(index))});
    }
  }
  EXPECT_EQ(world.runtime()->api().stream_synchronize(model.user().handle), cuda::kSuccess);
  return found;
}

void expect_means(const std::vector<Found>& found, int size) {
  ASSERT_EQ(found.size(), kCounts.size() * kSteps);
  for (const auto& [step, index, values] : found) {
    ASSERT_EQ(values->size(), static_cast<std::size_t>(kCounts[index]));
    EXPECT_EQ(far_from(mean_of(size, index, step), *values), 0) << "tensor " << index << " step " << step;
  }
}

struct Case {
  Hosts hosts;
  bool side_stream = false;
};
class DeviceRounds : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Worlds, DeviceRounds,
                         testing::Values(Case{one_host(1)}, Case{one_host(2)}, Case{one_host(2), true},
                                         Case{one_host(4)}, Case{{0, 0, 1}, true}));

TEST_P(DeviceRounds, AverageInAnyOrderThatTheWaitsAllow) {
  const int seeds = kSanitized ? 5 : 50;
  for (int seed = 1; seed <= seeds; ++seed) {
    const int size = static_cast<int>(GetParam().hosts.size());
    DeviceWorld world({GetParam().hosts, static_cast<std::uint64_t>(seed), small_buckets()});
    std::vector<std::vector<Found>> found(static_cast<std::size_t>(size));
    world.run([&](Context& context) {
      found[static_cast<std::size_t>(context.rank())] = train(world, context, GetParam().side_stream);
    });
    for (const auto& rank : found) expect_means(rank, size);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace kolo::test
