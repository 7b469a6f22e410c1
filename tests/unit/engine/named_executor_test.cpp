#include "engine/named_executor.h"

#include <gtest/gtest.h>

#include "support/fake_communicator.h"

namespace kolo::engine {
namespace {

// Freed memory of this size goes back to the system: whoever reads it then crashes, without a sanitizer too.
constexpr std::int64_t kLarge = std::int64_t{64} << 20;

struct Executor : testing::Test {
  Pending pending(RequestKind kind) {
    Request request;
    request.name = "x";
    request.kind = kind;
    request.dtype = DType::u8;
    request.sizes = {kLarge};
    request.input = input.data();
    return {request, std::make_shared<WorkState>("x", std::weak_ptr<Driver>{}, std::chrono::seconds(1))};
  }

  std::vector<std::byte> input = std::vector<std::byte>(kLarge);
  telemetry::Counters counters;
};

struct AnyKind : Executor, testing::WithParamInterface<RequestKind> {};

// A rank that ends while its peers are gone: what it had under way never completes.
TEST_P(AnyKind, MemoryOutlivesTheOperationThatIsGivenUp) {
  const auto submitted = pending(GetParam());
  {
    NamedExecutor executor(
        {.communicator = std::make_unique<comm::FakeCommunicator>(comm::FakeScript{.advances = 1000}),
         .counters = &counters,
         .timeout = std::chrono::seconds(1),
         .release = [](const std::string&) {}});
    Item item;
    item.names = {"x"};
    item.bytes = {kLarge, kLarge};
    std::vector pending{submitted};
    executor.start(item, pending);
    EXPECT_FALSE(executor.advance());
    EXPECT_EQ(executor.in_flight(), 1U);
  }
  EXPECT_FALSE(submitted.work->finished());
}

INSTANTIATE_TEST_SUITE_P(Kinds, AnyKind,
                         testing::Values(RequestKind::allreduce, RequestKind::broadcast, RequestKind::allgather));

}  // namespace
}  // namespace kolo::engine
