// N ranks that are threads train like one process.
#include "training/equivalence.h"

#include "support/thread_ranks.h"

namespace kolo::test {
namespace {

std::vector<History> train_threads(Rule rule, at::ScalarType type, int ranks,
                                   const DistributedOptions& options = packed()) {
  auto contexts = Context::create_local(ranks);
  std::vector<History> histories(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    histories[r] = train_together(*contexts[r], rule, type, options);
  });
  return histories;
}

class TrainingOfThreads : public testing::TestWithParam<std::tuple<Rule, int>> {};

TEST_P(TrainingOfThreads, WeightsEqualOneProcessOnUnionBatch) {
  const auto [rule, ranks] = GetParam();
  for (const auto& [type, tolerance] : kPrecisions) {
    const auto together = train_threads(rule, type, ranks);
    for (int rank = 1; rank < ranks; ++rank) {
      expect_bitwise_equal(together[0], together[static_cast<std::size_t>(rank)], "rank " + std::to_string(rank));
    }
    expect_bitwise_equal(together[0], train_threads(rule, type, ranks)[0], "second run");
    const auto in_place = train_threads(rule, type, ranks, shared());
    for (const auto& history : in_place) expect_bitwise_equal(together[0], history, "gradients in place");
    expect_close(together[0], train_alone(rule, type, ranks), tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(All, TrainingOfThreads, testing::Combine(testing::ValuesIn(kRules), testing::Values(2, 3, 4)));

}  // namespace
}  // namespace kolo::test
