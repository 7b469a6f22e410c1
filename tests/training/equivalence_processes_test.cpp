// N ranks that are processes train like one.
#include <mpi.h>

#include "training/equivalence.h"

namespace kolo::test {
namespace {

// What rank 0 has, by MPI's own means.
History history_of_rank_0(History history) {
  for (auto& step : history) {
    for (auto& tensor : step) {
      MPI_Bcast(tensor.mutable_data_ptr(), static_cast<int>(tensor.nbytes()), MPI_BYTE, 0, MPI_COMM_WORLD);
    }
  }
  return history;
}

History copy_of(const History& history) {
  History copy;
  for (const auto& step : history) {
    copy.emplace_back();
    for (const auto& tensor : step) copy.back().push_back(tensor.clone());
  }
  return copy;
}

class TrainingOfProcesses : public testing::TestWithParam<Rule> {};

TEST_P(TrainingOfProcesses, WeightsEqualOneProcessOnUnionBatch) {
  const auto context = Context::create();
  ASSERT_GT(context->size(), 1);
  for (const auto& [type, tolerance] : kPrecisions) {
    const auto together = train_together(*context, GetParam(), type);
    expect_bitwise_equal(history_of_rank_0(copy_of(together)), together, "rank 0 and this one");
    expect_bitwise_equal(together, train_together(*context, GetParam(), type), "second run");
    expect_bitwise_equal(together, train_together(*context, GetParam(), type, shared()), "gradients in place");
    expect_close(together, train_alone(GetParam(), type, context->size()), tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(All, TrainingOfProcesses, testing::ValuesIn(kRules));

}  // namespace
}  // namespace kolo::test
