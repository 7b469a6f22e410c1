// Operations without a name between ranks that are threads: matched by the order of each rank's calls.
#include <gmock/gmock.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "multirank/engine/world.h"

namespace kolo::test {
namespace {

using testing::Each;
using testing::HasSubstr;

class UnnamedOperation : public testing::TestWithParam<Hosts> {};
INSTANTIATE_TEST_SUITE_P(Worlds, UnnamedOperation,
                         testing::Values(one_host(1), one_host(2), one_host(3), Hosts{0, 1}, Hosts{0, 0, 1}));

float sum_of_ranks(const Context& context, float each) {
  const int size = context.size();
  return each * static_cast<float>(size * (size + 1)) / 2;
}

std::vector<float> values(const Context& context, std::size_t count, float each) {
  return std::vector<float>(count, each * static_cast<float>(context.rank() + 1));
}

template <class E, class Body>
std::string text_of(Body body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  }
  return "no error";
}

TEST_P(UnnamedOperation, MatchesCallsInOrder) {
  run_world(GetParam(), quick(), [](Context& context) {
    for (std::size_t step = 1; step <= 40; ++step) {
      const std::size_t count = step % 7 + 1;
      const auto input = values(context, count, static_cast<float>(step));
      std::vector<float> unnamed(count), named(5);
      const auto other = values(context, 5, 1.0F);
      Work second = context.engine().submit(allreduce("named", other, &named));
      context.engine().submit(allreduce("", input, &unnamed)).wait();
      second.wait();
      EXPECT_THAT(unnamed, Each(sum_of_ranks(context, static_cast<float>(step))));
      EXPECT_THAT(named, Each(sum_of_ranks(context, 1)));
    }
  });
}

TEST_P(UnnamedOperation, MoreCallsThanMayBeInFlightComplete) {
  run_world(GetParam(), quick(), [](Context& context) {
    constexpr std::size_t kCalls = 30;
    std::vector<std::vector<float>> inputs, outputs(kCalls, std::vector<float>(3));
    std::vector<Work> works;
    for (std::size_t i = 0; i < kCalls; ++i) inputs.push_back(values(context, 3, static_cast<float>(i)));
    for (std::size_t i = 0; i < kCalls; ++i) {
      works.push_back(context.engine().submit(allreduce("", inputs[i], &outputs[i])));
    }
    for (std::size_t i = kCalls; i-- > 0;) {
      works[i].wait();
      EXPECT_THAT(outputs[i], Each(sum_of_ranks(context, static_cast<float>(i))));
    }
  });
}

TEST_P(UnnamedOperation, DifferentShapesAreMismatchErrorAndNextCallWorks) {
  run_world(GetParam(), quick(), [](Context& context) {
    if (context.size() == 1) return;
    const auto input = values(context, context.rank() == 0 ? 4 : 5, 1.0F);
    EXPECT_THAT(text_of<MismatchError>([&] { context.engine().submit(allreduce("", input, nullptr)).wait(); }),
                HasSubstr("kolo/unnamed/1"));
    const auto equal = values(context, 4, 2.0F);
    std::vector<float> output(4);
    context.engine().submit(allreduce("", equal, &output)).wait();
    EXPECT_THAT(output, Each(sum_of_ranks(context, 2)));
  });
}

TEST_P(UnnamedOperation, SecondThreadGetsUsageErrorAndFirstThreadContinues) {
  run_world(GetParam(), quick(), [](Context& context) {
    const auto input = values(context, 4, 1.0F);
    std::vector<float> output(4);
    context.engine().submit(allreduce("", input, &output)).wait();
    std::thread([&] {
      EXPECT_THAT(text_of<UsageError>([&] { context.engine().submit(allreduce("", input, nullptr)); }),
                  HasSubstr("from a second thread"));
    }).join();
    context.engine().submit(allreduce("", input, &output)).wait();
    EXPECT_THAT(output, Each(sum_of_ranks(context, 1)));
  });
}

TEST_P(UnnamedOperation, CallAfterFailureIsUsageErrorOnEveryRank) {
  run_world(GetParam(), quick(), [](Context& context) {
    if (context.size() == 1) return;
    const auto input = values(context, 4, 1.0F);
    const auto train = [&] {
      if (context.rank() == 1) throw std::runtime_error("no more data");
      context.engine().submit(allreduce("", input, nullptr)).wait();
    };
    if (context.rank() == 1) {
      EXPECT_THROW(context.run(train), std::runtime_error);
    } else {
      EXPECT_THROW(context.run(train), PeerFailedError);
    }
    EXPECT_THAT(text_of<UsageError>([&] { context.engine().submit(allreduce("", input, nullptr)); }),
                HasSubstr("after a failure"));
    context.engine().submit(allreduce("named", input, nullptr)).wait();
  });
}

TEST(UnnamedOperationOfOneRank, WorksAfterAFailure) {
  run_world(1, quick(), [](Context& context) {
    EXPECT_THROW(context.run([] { throw std::runtime_error("no more data"); }), std::runtime_error);
    const auto input = values(context, 4, 1.0F);
    std::vector<float> output(4);
    context.engine().submit(allreduce("", input, &output)).wait();
    EXPECT_EQ(output, input);
  });
}

TEST(Barrier, ReturnsWhenAllRanksHaveCalledIt) {
  std::atomic<int> before{0};
  run_world(3, quick(), [&](Context& context) {
    ++before;
    context.barrier();
    EXPECT_EQ(before.load(), 3);
    context.barrier();
  });
}

TEST(Barrier, ThrowsTimeoutErrorAfterTheConfiguredTime) {
  Config config = quick();
  config.timeout = std::chrono::milliseconds(300);
  run_world(2, config, [](Context& context) {
    context.barrier();
    if (context.rank() == 1) {
      EXPECT_THAT(text_of<TimeoutError>([&] { context.barrier(); }), HasSubstr("after 300 ms on rank 1"));
    }
  });
}

}  // namespace
}  // namespace kolo::test
