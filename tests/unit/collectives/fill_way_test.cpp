#include "collectives/fill_way.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <vector>

#include "collectives/lane_operations.h"
#include "support/thread_ranks.h"
#include "transport/make.h"

namespace kolo::collectives {
namespace {

constexpr std::size_t kBytes = 64 * 1024;
constexpr std::chrono::nanoseconds kFast{4 * 1024};
constexpr std::chrono::nanoseconds kSlow{28 * 1024};

void take(FillWay& way, int fills, std::chrono::nanoseconds time, bool past) {
  for (int i = 0; i < fills; ++i) {
    EXPECT_EQ(way.past_caches(), past) << "fill " << i;
    way.took(kBytes, time);
  }
}

TEST(FillWay, FastFillsGoThroughTheCaches) {
  FillWay way;
  take(way, 1000, kFast, false);
}

TEST(FillWay, SlowOnesWithFastOnesBetweenThemToo) {
  FillWay way;
  for (int i = 0; i < 300; ++i) {
    take(way, 2, kSlow, false);
    take(way, 1, kFast, false);
  }
}

// And are tried through the caches again now and then.
TEST(FillWay, SlowOnesInARowGoPastThem) {
  FillWay way;
  for (int turn = 0; turn < 3; ++turn) {
    take(way, FillWay::kTried, kSlow, false);
    take(way, FillWay::kFills, kFast, true);
  }
  take(way, 1000, kFast, false);
}

// Memory that is slow is so either way: nothing is gained, and that is not tried again at once.
TEST(FillWay, NotWhereThatTakesAsLong) {
  FillWay way;
  for (int turn = 0; turn < 3; ++turn) {
    take(way, FillWay::kTried, kSlow, false);
    take(way, FillWay::kTried, kSlow * 6 / 10, true);
    take(way, FillWay::kFills, kSlow, false);
  }
}

// What goes past the caches arrives like what goes through them.
class PastCaches : public testing::TestWithParam<int> {
 protected:
  static constexpr std::size_t kCount = 70'001;  // more than two lanes of f32, and no whole line at the end

  // `start(lanes, group, data)` on every rank, whose data is rank, rank + 1, ...
  using Start = std::function<std::unique_ptr<Operation>(const std::shared_ptr<Lanes>&, std::shared_ptr<Group>,
                                                         std::vector<float>&)>;
  void run(const Start& start, const std::function<float(std::size_t)>& expected, bool only_root = false) {
    const int ranks = GetParam();
    auto transports = transport::make_inproc(ranks);
    auto memories = transport::make_inproc_shared_memory(ranks);
    test::run_ranks(ranks, [&](int rank) {
      const auto lanes = make_lanes(*memories[static_cast<std::size_t>(rank)], std::chrono::seconds(60));
      for (int i = 0; i < FillWay::kTried; ++i) lanes->fill_way.took(kBytes, kSlow);
      for (int i = 0; i < FillWay::kTried; ++i) lanes->fill_way.took(kBytes, kFast);
      auto group = std::make_shared<Group>();
      group->transport = transports[static_cast<std::size_t>(rank)].get();
      std::vector<float> data(kCount);
      std::iota(data.begin(), data.end(), static_cast<float>(rank));
      const auto operation = start(lanes, group, data);
      while (!operation->advance()) std::this_thread::yield();
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < kCount; ++i) wrong += data[i] != expected(i) ? 1 : 0;
      EXPECT_EQ(wrong, 0U) << "on rank " << rank;
      int left = 0;
      for (; lanes->fill_way.past_caches(); ++left) lanes->fill_way.took(kBytes, kFast);
      EXPECT_EQ(left < FillWay::kFills - FillWay::kTried, rank == 1 || !only_root)
          << "whether rank " << rank << " filled";
    });
  }
  static float sum_at(std::size_t i) {
    const int ranks = GetParam();
    return static_cast<float>(ranks) * static_cast<float>(i) + static_cast<float>(ranks * (ranks - 1)) / 2;
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, PastCaches, testing::Values(2, 3, 4));

AllreduceOptions all_of(std::vector<float>& data) {
  AllreduceOptions options;
  options.data = reinterpret_cast<std::byte*>(data.data());
  options.count = data.size();
  return options;
}

TEST_P(PastCaches, Allreduce) {
  run([](const auto& lanes, auto group, auto& data) { return start_lane_allreduce(group, lanes, all_of(data)); },
      sum_at);
}

TEST_P(PastCaches, AllreduceInSlices) {
  run([](const auto& lanes, auto group, auto& data) { return start_lane_sliced_allreduce(group, lanes, all_of(data)); },
      sum_at);
}

TEST_P(PastCaches, Broadcast) {
  run(
      [](const auto& lanes, auto group, auto& data) {
        const auto bytes = std::as_writable_bytes(std::span(data));
        return start_lane_broadcast(group, lanes, {bytes.data(), bytes.size(), 1});
      },
      [](std::size_t i) { return static_cast<float>(i + 1); }, true);
}

// In place: rank r's part of the result is what it had there.
TEST_P(PastCaches, Allgather) {
  const auto ranks = static_cast<std::size_t>(GetParam());
  const std::size_t each = kCount / ranks;
  std::vector<std::size_t> counts(ranks, each * sizeof(float));
  counts.back() = (kCount - each * (ranks - 1)) * sizeof(float);
  run(
      [&](const auto& lanes, auto group, auto& data) {
        const auto bytes = std::as_writable_bytes(std::span(data));
        const auto own = static_cast<std::size_t>(lanes->rank) * each * sizeof(float);
        return start_lane_allgather(group, lanes, {bytes.data() + own, counts, bytes.data()});
      },
      [&](std::size_t i) { return static_cast<float>(i + std::min(i / each, ranks - 1)); });
}

}  // namespace
}  // namespace kolo::collectives
