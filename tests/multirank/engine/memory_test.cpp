// An operation needs more memory than exists. It fails on all ranks; other operations continue.
#include <gmock/gmock.h>

#include "multirank/engine/world.h"

namespace kolo::test {
namespace {

constexpr std::int64_t kTooMany = std::int64_t{1} << 46;  // more bytes than a process can address

void expect_that_requests_work(Context& context) {
  const std::vector<float> ones(10, 1.0F);
  std::vector<float> sums(10);
  context.engine().submit(allreduce("small", ones, &sums)).wait();
  EXPECT_THAT(sums, testing::Each(static_cast<float>(context.size())));
}

TEST(OutOfMemory, FailsOneRequestOnAllRanks) {
  run_world(3, quick(), [](Context& context) {
    const std::vector<float> ones(10, 1.0F);
    for (int repeat = 0; repeat < 2; ++repeat) {  // its name is free again
      auto request = allreduce("huge", ones, nullptr);
      request.sizes = {kTooMany};
      auto work = context.engine().submit(std::move(request));
      EXPECT_THROW(work.wait(), BackendError);
      expect_that_requests_work(context);
    }
  });
}

TEST(OutOfMemory, FailsOneRoundOnAllRanks) {
  run_world(3, quick(), [](Context& context) {
    const std::vector<float> ones(10, 1.0F);
    auto huge = context.engine().make_reducer({{"huge", {kTooMany}, {1}, DType::f32}}, {});
    for (int repeat = 0; repeat < 2; ++repeat) {
      huge->contribute(0, ones.data());
      EXPECT_THROW(huge->finish(), BackendError);
      expect_that_requests_work(context);
    }
    auto small = context.engine().make_reducer({{"small", {10}, {1}, DType::f32}}, {});
    small->contribute(0, ones.data());
    small->finish();
    EXPECT_EQ(small->gradient(0).size(), 40U);
  });
}

// A rank does not know whether ranks of other hosts have the memory.
TEST(OutOfMemory, EndsGroupOnSeveralHosts) {
  run_world(Hosts{0, 0, 1, 1}, quick(), [](Context& context) {
    const std::vector<float> ones(10, 1.0F);
    auto huge = context.engine().make_reducer({{"huge", {kTooMany}, {1}, DType::f32}}, {});
    huge->contribute(0, ones.data());
    EXPECT_THROW(huge->finish(), BackendError);
    EXPECT_THROW(context.engine().submit(allreduce("after", ones, nullptr)).wait(), Error);
  });
}

}  // namespace
}  // namespace kolo::test
