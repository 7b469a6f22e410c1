// Engines of ranks that are threads, with a faulty transport on one rank. Late messages change no result. Lost or
// truncated messages and a silent rank are typed errors on every rank within the timeout.
#include <gmock/gmock.h>

#include <barrier>
#include <cstring>

#include "multirank/engine/node.h"
#include "support/faulty_transport.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 3;
constexpr int kSteps = 12;
constexpr std::size_t kCount = 30'000;

bool all_are(std::span<const std::byte> bytes, float wanted) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return std::all_of(values.begin(), values.end(), [wanted](float value) { return value == wanted; });
}

// Steps with a named operation and a round; checks every result and throws the first error.
void train(Node& node) {
  const std::vector<float> mine(kCount, static_cast<float>(node.rank() + 1));
  const float sum = kRanks * (kRanks + 1) / 2.0F;
  auto reducer = node.engine().make_reducer({{"a", {kCount}, {1}, DType::f32}, {"b", {10}, {1}, DType::f32}},
                                            ReducerOptions{.op = ReduceOp::sum, .settings = {}});
  for (int step = 0; step < kSteps; ++step) {
    auto metric = node.engine().submit(allreduce("metric", mine, nullptr));
    for (const std::size_t i : {1, 0}) reducer->contribute(i, mine.data());
    reducer->finish();
    metric.wait();
    for (const std::size_t i : {0, 1}) EXPECT_TRUE(all_are(reducer->gradient(i), sum)) << "step " << step;
    EXPECT_TRUE(all_are(metric.result(), sum)) << "step " << step;
  }
}

// Runs `body(node)` on every rank; no node is destroyed before all ranks are done.
template <class Body>
void run(const transport::Faults& faults, Rank faulty, const Config& config, Body body) {
  auto ends = transport::make_inproc(kRanks);
  auto& end = ends[static_cast<std::size_t>(faulty)];
  end = transport::make_faulty(std::move(end), faults);
  std::barrier<> through(kRanks);
  run_ranks(kRanks, [&](int rank) {
    Attendance attendance(through);
    Node node(std::move(ends[static_cast<std::size_t>(rank)]), config);
    body(node);
    attendance.meet();
  });
}

TEST(EngineOverFaultyTransport, LateMessagesChangeNoResult) {
  for (const auto mode : {CoordinatorMode::never, CoordinatorMode::always}) {
    for (const Rank faulty : {0, 2}) {
      run({.seed = 7, .max_delay_tests = 20}, faulty, quick(mode), [](Node& node) { EXPECT_NO_THROW(train(node)); });
    }
  }
}

void expect_typed_errors(const transport::Faults& faults, Rank faulty) {
  auto config = quick(CoordinatorMode::never);
  config.timeout = 400ms;
  run(faults, faulty, config, [&](Node& node) {
    SCOPED_TRACE("rank " + std::to_string(node.rank()) + ", the faulty one is " + std::to_string(faulty));
    try {
      train(node);
      ADD_FAILURE() << "no error";
    } catch (const TimeoutError&) {
    } catch (const PeerLostError&) {
    } catch (const BackendError&) {
    } catch (const std::exception& error) {
      ADD_FAILURE() << "another error: " << error.what();
    }
  });
}

TEST(EngineOverFaultyTransport, LostMessagesAreErrorOnEveryRank) {
  for (const Rank faulty : {0, 1}) expect_typed_errors({.drop = 1}, faulty);
}

TEST(EngineOverFaultyTransport, TruncatedMessagesAreErrorOnEveryRank) {
  for (const Rank faulty : {0, 1}) expect_typed_errors({.truncate = 1}, faulty);
}

// In the first negotiation, and later.
TEST(EngineOverFaultyTransport, SilentRankIsErrorOnEveryRank) {
  for (const Rank faulty : {0, 1}) expect_typed_errors({.kill_at = faulty == 0 ? 6U : 60U}, faulty);
}

}  // namespace
}  // namespace kolo::test
