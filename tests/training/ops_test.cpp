// Collectives on tensors between ranks that are threads.
#include <gmock/gmock.h>
#include <torch/types.h>

#include "kolo/context.h"
#include "kolo/error.h"
#include "kolo/torch/torch.h"
#include "support/local_ranks.h"

namespace {

using kolo::Context;
using kolo::test::on_ranks;

at::Tensor filled(std::vector<std::int64_t> sizes, double value) { return torch::full(sizes, value, torch::kFloat64); }

TEST(TensorCollectives, NamedOperationsMatchInAnyOrder) {
  on_ranks(3, [](Context& context) {
    const at::Tensor x = filled({4}, context.rank());
    const at::Tensor y = filled({2, 3}, context.rank() + 1).t();
    if (context.rank() % 2 == 0) {
      auto first = kolo::allreduce_async(context, x, kolo::ReduceOp::sum, "x");
      auto second = kolo::allreduce_async(context, y, kolo::ReduceOp::max, "y");
      second.wait();
      first.wait();
    } else {
      auto second = kolo::allreduce_async(context, y, kolo::ReduceOp::max, "y");
      auto first = kolo::allreduce_async(context, x, kolo::ReduceOp::sum, "x");
      first.wait();
      second.wait();
    }
    EXPECT_TRUE(x.eq(3).all().item<bool>());
    EXPECT_TRUE(y.eq(3).all().item<bool>());
    EXPECT_TRUE(kolo::broadcast_(context, filled({2}, context.rank()), 1, "b").eq(1).all().item<bool>());
    const auto metrics = kolo::allreduce_metrics(context, {1.0 * context.rank(), 5}, kolo::ReduceOp::average, "m");
    EXPECT_THAT(metrics, testing::ElementsAre(1, 5));
  });
}

TEST(TensorCollectives, UnnamedOperationsMatchInCallOrder) {
  on_ranks(2, [](Context& context) {
    const at::Tensor x = filled({4}, context.rank());
    const at::Tensor y = filled({3}, context.rank() + 1);
    auto first = kolo::allreduce_async(context, x, kolo::ReduceOp::sum);
    auto second = kolo::broadcast_async(context, y, 1);
    second.wait();
    first.wait();
    EXPECT_TRUE(x.eq(1).all().item<bool>());
    EXPECT_TRUE(y.eq(2).all().item<bool>());
    EXPECT_EQ(kolo::allgather(context, filled({context.rank() + 1}, 1)).numel(), 3);
    EXPECT_THAT(kolo::allreduce_metrics(context, {1.0 * context.rank()}), testing::ElementsAre(0.5));
    EXPECT_THROW(kolo::allreduce_(context, filled({context.rank() + 1}, 1)), kolo::MismatchError);
    EXPECT_TRUE(kolo::allreduce_(context, filled({2}, context.rank())).eq(0.5).all().item<bool>());
  });
}

TEST(TensorCollectives, AllgatherConcatenatesTensorsOfDifferentSizes) {
  on_ranks(3, [](Context& context) {
    const at::Tensor all = kolo::allgather(context, filled({context.rank() + 1, 2}, context.rank()), "g");
    const at::Tensor expected = torch::cat({filled({1, 2}, 0), filled({2, 2}, 1), filled({3, 2}, 2)});
    EXPECT_TRUE(torch::equal(all, expected));
  });
}

TEST(TensorCollectives, StridedViewIsReducedInPlace) {
  on_ranks(2, [](Context& context) {
    const at::Tensor whole = filled({4, 4}, 1);
    kolo::allreduce_(context, whole.select(1, 0), kolo::ReduceOp::sum, "column");
    EXPECT_DOUBLE_EQ(whole.sum().item<double>(), 20);
    EXPECT_THROW(kolo::allreduce_(context, torch::zeros({2}, torch::kComplexFloat), kolo::ReduceOp::average, "z"),
                 kolo::UsageError);
  });
}

TEST(TensorCollectives, TensorOutlivesDroppedHandle) {
  on_ranks(2, [](Context& context) {
    { auto dropped = kolo::allreduce_async(context, filled({1 << 16}, 1), kolo::ReduceOp::average, "dropped"); }
    EXPECT_TRUE(
        kolo::allreduce_(context, filled({2}, context.rank()), kolo::ReduceOp::sum, "next").eq(1).all().item<bool>());
  });
}

}  // namespace
