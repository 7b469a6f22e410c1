// A Context after its shutdown(): every call that needs other ranks throws a UsageError at once, without a wait.
#include <gmock/gmock.h>

#include <optional>

#include "kolo/context.h"
#include "kolo/spi/communicator.h"
#include "kolo/spi/engine.h"
#include "multirank/engine/world.h"

namespace kolo::test {
namespace {

constexpr auto kForEver = std::chrono::milliseconds::max();

// Of each collective of `communicator`, as a blocking call and as an operation.
void expect_that_no_collective_begins(Communicator& communicator) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  std::vector<float> data(ranks * 8);
  auto* bytes = reinterpret_cast<std::byte*>(data.data());
  const std::vector<std::size_t> counts(ranks, 8);
  AllreduceOptions allreduce;
  allreduce.data = bytes;
  allreduce.count = data.size();
  const BroadcastOptions broadcast{bytes, data.size(), 0};
  const AllgatherOptions allgather{bytes, counts, bytes};
  ReduceScatterOptions reduce_scatter;
  reduce_scatter.input = bytes;
  reduce_scatter.counts = counts;
  reduce_scatter.output = bytes;
  EXPECT_THROW(communicator.allreduce(allreduce, kForEver), UsageError);
  EXPECT_THROW(communicator.broadcast(broadcast, kForEver), UsageError);
  EXPECT_THROW(communicator.broadcast({}, kForEver), UsageError);  // of nothing
  EXPECT_THROW(communicator.allgather(allgather, kForEver), UsageError);
  EXPECT_THROW(communicator.reduce_scatter(reduce_scatter, kForEver), UsageError);
  EXPECT_THROW(communicator.barrier(kForEver), UsageError);
  EXPECT_THROW((void)communicator.start(allreduce), UsageError);
  EXPECT_THROW((void)communicator.start(broadcast), UsageError);
  EXPECT_THROW((void)communicator.start(allgather), UsageError);
  EXPECT_THROW((void)communicator.start(reduce_scatter), UsageError);
  EXPECT_THROW((void)communicator.start_barrier(), UsageError);
  EXPECT_THROW((void)communicator.start_segmented(allreduce, {}), UsageError);
  const std::size_t size = 64;
  EXPECT_THROW((void)communicator.allocate({&size, 1}, kForEver), UsageError);
}

void expect_that_the_engine_takes_nothing(Engine& engine) {
  const std::vector<float> input(8, 1.0F);
  EXPECT_THROW((void)engine.submit(allreduce("after", input, nullptr)), UsageError);
  EXPECT_THROW((void)engine.make_reducer({{"weight", {8}, {1}, DType::f32}}, {}), UsageError);
  EXPECT_THROW((void)engine.make_step_launcher(), UsageError);
  EXPECT_TRUE(engine.is_stopped());
}

void expect_what_stays_usable(Context& context, int size) {
  EXPECT_EQ(context.size(), size);
  EXPECT_EQ(context.config().timeout, quick().timeout);
  EXPECT_GT(context.counters().size(), 0U);
  context.log(LogLevel::info, "after shutdown()");
  EXPECT_EQ(context.survivors().size(), static_cast<std::size_t>(size));
  ASSERT_NE(context.failure(), nullptr);
  EXPECT_THROW(std::rethrow_exception(context.failure()), UsageError);
  context.wait_for_devices();
  EXPECT_THROW(context.run([] { throw std::out_of_range("of the program's"); }), std::out_of_range);
  static_cast<void>(context.engine().progress());
}

class AfterShutdown : public testing::TestWithParam<Hosts> {};
INSTANTIATE_TEST_SUITE_P(Worlds, AfterShutdown, testing::Values(one_host(1), one_host(2), Hosts{0, 1}, Hosts{0, 0, 1}));

// The peers are still running.
TEST_P(AfterShutdown, EveryCollectiveIsUsageErrorAtOnce) {
  auto contexts = Context::create_local(GetParam(), quick());
  const int size = static_cast<int>(contexts.size());
  std::barrier<> all(size);
  run_ranks(size, [&](int rank) {
    Attendance attendance(all);
    Context& context = *contexts[static_cast<std::size_t>(rank)];
    Communicator& communicator = context.communicator();
    communicator.barrier(std::chrono::seconds(20));
    auto reducer = context.engine().make_reducer({{"weight", {8}, {1}, DType::f32}}, {});
    const std::vector<float> gradient(8, 1.0F);
    attendance.meet();
    if (rank == size - 1) {
      context.shutdown();
      EXPECT_THROW((void)context.communicator(), UsageError);
      expect_that_no_collective_begins(communicator);
      expect_that_the_engine_takes_nothing(context.engine());
      EXPECT_THROW((void)gather_texts(context, "test", "text"), UsageError);
      EXPECT_THROW((void)Context::create_over_survivors(context), UsageError);
      EXPECT_THROW(reducer->contribute(0, gradient.data()), UsageError);
      EXPECT_THROW(reducer->finish(), UsageError);
      expect_what_stays_usable(context, size);
      context.shutdown();  // again
    }
    attendance.meet();
  });
}

TEST(AfterShutdown, UsageErrorIsThrownInsteadOfEarlierLoss) {
  auto contexts = Context::create_local(2, quick());
  run_ranks(2, [&](int rank) {
    Context& context = *contexts[static_cast<std::size_t>(rank)];
    const std::vector<float> input(8, 1.0F);
    if (rank == 0) return context.shutdown();
    EXPECT_THROW(context.engine().submit(allreduce("alone", input, nullptr)).wait(), PeerLostError);
    EXPECT_THROW((void)context.engine().submit(allreduce("alone", input, nullptr)).wait(), PeerLostError);
    context.shutdown();
    EXPECT_THROW((void)context.communicator(), UsageError);
    expect_that_the_engine_takes_nothing(context.engine());
    EXPECT_THROW(std::rethrow_exception(context.failure()), PeerLostError);  // why it was shut down
  });
}

TEST(EmptyWork, IsDoneAndEveryOtherCallIsUsageError) {
  Work work;
  EXPECT_TRUE(work.done());
  EXPECT_THROW(work.wait(), UsageError);
  EXPECT_THROW(work.wait_for(kForEver), UsageError);
  EXPECT_THROW((void)work.result(), UsageError);
}

}  // namespace
}  // namespace kolo::test
