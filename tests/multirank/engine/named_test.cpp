// Named operations between ranks that are threads.
#include <gmock/gmock.h>

#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <random>

#include "multirank/engine/world.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

float sum_to(int size) { return static_cast<float>(size * (size + 1)) / 2; }

class NamedOperation : public testing::TestWithParam<Hosts> {};
INSTANTIATE_TEST_SUITE_P(Ranks, NamedOperation,
                         testing::Values(one_host(1), one_host(2), one_host(3), one_host(5), one_host(8)));
INSTANTIATE_TEST_SUITE_P(Hosts, NamedOperation,
                         testing::Values(Hosts{0, 1}, Hosts{0, 0, 1, 1}, Hosts{0, 1, 0, 1}, Hosts{0, 0, 0, 1},
                                         Hosts{0, 1, 1, 2}));

TEST_P(NamedOperation, AllreduceGivesSumAsViewAndAsCopy) {
  run_world(GetParam(), quick(), [](Context& context) {
    for (int step = 0; step < 5; ++step) {
      const std::vector<float> input(1000, static_cast<float>(context.rank() + 1));
      std::vector<float> output(1000);
      auto copied = context.engine().submit(allreduce("copied", input, &output));
      auto viewed = context.engine().submit(allreduce("viewed", input, nullptr));
      copied.wait();
      viewed.wait();
      EXPECT_THAT(output, testing::Each(sum_to(context.size())));
      float value = 0;
      ASSERT_EQ(viewed.result().size(), 4000U);
      std::memcpy(&value, viewed.result().data() + 3996, sizeof value);
      EXPECT_EQ(value, sum_to(context.size()));
    }
  });
}

TEST_P(NamedOperation, WaitWithoutTimeoutCompletes) {
  run_world(GetParam(), quick(), [](Context& context) {
    constexpr auto kForEver = std::chrono::milliseconds::max();
    const std::vector<float> input(10, 1.0F);
    std::vector<float> output(10);
    context.engine().submit(allreduce("for ever", input, &output)).wait_for(kForEver);
    EXPECT_THAT(output, testing::Each(static_cast<float>(context.size())));
    context.communicator().barrier(kForEver);
  });
}

TEST_P(NamedOperation, TimeoutOfWaitNamesLateRankAndOperationCompletesLater) {
  run_world(GetParam(), quick(), [](Context& context) {
    const Rank late = context.size() - 1;
    const std::vector<float> input(10, 1.0F);
    std::optional<Work> work;
    if (context.rank() != late) {
      work = context.engine().submit(allreduce("late", input, nullptr));
      try {
        work->wait_for(100ms);
        ADD_FAILURE() << "it was complete";
      } catch (const TimeoutError& error) {
        if (context.rank() == 0) {
          EXPECT_THAT(error.missing(), testing::Contains(late)) << error.what();
        }
        EXPECT_THAT(error.missing(), testing::Not(testing::Contains(context.rank()))) << error.what();
      }
    }
    context.communicator().barrier(20s);
    if (context.rank() == late) work = context.engine().submit(allreduce("late", input, nullptr));
    work->wait();
  });
}

// Results of this size are copied past the caches.
TEST_P(NamedOperation, LargeResultIsCopiedToUnalignedOutputOnly) {
  run_world(GetParam(), quick(), [](Context& context) {
    const std::vector<std::size_t> counts{1'200'001, 13, 700'003};
    std::vector<std::vector<float>> inputs, outputs;
    std::vector<Work> works;
    for (const auto count : counts) {
      inputs.emplace_back(count);
      for (std::size_t i = 0; i < count; ++i) inputs.back()[i] = static_cast<float>(i % 1000);
      outputs.emplace_back(count + 2, -1.0F);
    }
    for (std::size_t i = 0; i < counts.size(); ++i) {
      Request request = allreduce("large" + std::to_string(i), inputs[i], nullptr);
      request.output = outputs[i].data() + 1;
      works.push_back(context.engine().submit(std::move(request)));
    }
    for (auto& work : works) work.wait();
    for (std::size_t i = 0; i < counts.size(); ++i) {
      EXPECT_EQ(outputs[i].front(), -1.0F);
      EXPECT_EQ(outputs[i].back(), -1.0F);
      std::size_t wrong = 0;
      for (std::size_t k = 0; k < counts[i]; ++k) {
        wrong += outputs[i][k + 1] != static_cast<float>(k % 1000) * static_cast<float>(context.size()) ? 1 : 0;
      }
      EXPECT_EQ(wrong, 0U) << "of " << counts[i];
    }
  });
}

TEST_P(NamedOperation, OrderOfSubmissionMayDifferOnEveryRank) {
  run_world(GetParam(), quick(), [](Context& context) {
    std::mt19937 random(static_cast<unsigned>(context.rank()));
    for (int round = 0; round < 20; ++round) {
      constexpr int kTensors = 12;
      std::vector<std::vector<float>> inputs(kTensors), outputs(kTensors);
      std::vector<int> order(kTensors);
      for (int i = 0; i < kTensors; ++i) {
        order[static_cast<std::size_t>(i)] = i;
        inputs[static_cast<std::size_t>(i)].assign(static_cast<std::size_t>(1 + 7 * i),
                                                   static_cast<float>((context.rank() + 1) * (i + 1)));
        outputs[static_cast<std::size_t>(i)].resize(inputs[static_cast<std::size_t>(i)].size());
      }
      std::shuffle(order.begin(), order.end(), random);
      std::vector<Work> works;
      for (const int i : order) {
        const auto at = static_cast<std::size_t>(i);
        works.push_back(context.engine().submit(allreduce("t" + std::to_string(i), inputs[at], &outputs[at])));
      }
      for (auto& work : works) work.wait();
      for (int i = 0; i < kTensors; ++i) {
        EXPECT_THAT(outputs[static_cast<std::size_t>(i)],
                    testing::Each(sum_to(context.size()) * static_cast<float>(i + 1)));
      }
    }
  });
}

// The pool releases buffers whose operations are in flight or whose results are still held.
TEST_P(NamedOperation, ResultsAreRightIfNamesNeedMoreThanIdleBufferBytes) {
  Config config = quick();
  config.idle_buffer_bytes = 64 * 1024;
  config.bucket_bytes = 16 * 1024;  // so much is fused at most
  run_world(GetParam(), config, [](Context& context) {
    constexpr std::size_t kNames = 40;
    for (const std::string step : {"first", "second", "first"}) {
      std::vector<std::vector<float>> inputs;
      for (std::size_t i = 0; i < kNames; ++i) {
        inputs.emplace_back(3000, static_cast<float>(i) * static_cast<float>(context.rank() + 1));
      }
      std::vector<Work> works;
      for (std::size_t i = 0; i < kNames; ++i) {
        works.push_back(context.engine().submit(allreduce(step + std::to_string(i), inputs[i], nullptr)));
      }
      for (auto& work : works) work.wait();
      for (std::size_t i = 0; i < kNames; ++i) {
        std::vector<float> result(3000);
        ASSERT_EQ(works[i].result().size(), result.size() * sizeof(float));
        std::memcpy(result.data(), works[i].result().data(), works[i].result().size());
        EXPECT_THAT(result, testing::Each(static_cast<float>(i) * sum_to(context.size())));
      }
    }
  });
}

TEST_P(NamedOperation, BroadcastAllgatherAndBarrierComplete) {
  run_world(GetParam(), quick(), [](Context& context) {
    const int root = context.size() - 1;
    std::vector<float> data(100, context.rank() == root ? 7.0F : 0.0F);
    Request broadcast = allreduce("broadcast", data, &data);
    broadcast.kind = RequestKind::broadcast;
    broadcast.root = root;
    const std::vector<float> mine(static_cast<std::size_t>(context.rank() + 1), static_cast<float>(context.rank()));
    Request gather = allreduce("gather", mine, nullptr);
    gather.kind = RequestKind::allgather;
    Request barrier;
    barrier.name = "barrier";
    barrier.kind = RequestKind::barrier;
    auto broadcast_work = context.engine().submit(broadcast);
    auto gather_work = context.engine().submit(gather);
    auto barrier_work = context.engine().submit(barrier);
    broadcast_work.wait();
    gather_work.wait();
    barrier_work.wait();
    EXPECT_THAT(data, testing::Each(7.0F));
    std::vector<float> expected;
    for (int rank = 0; rank < context.size(); ++rank)
      expected.insert(expected.end(), static_cast<std::size_t>(rank + 1), static_cast<float>(rank));
    std::vector<float> gathered(expected.size());
    ASSERT_EQ(gather_work.result().size(), expected.size() * sizeof(float));
    std::memcpy(gathered.data(), gather_work.result().data(), gather_work.result().size());
    EXPECT_EQ(gathered, expected);
  });
}

TEST(NamedOperation, DifferenceIsMismatchErrorOnEveryRankAndOthersComplete) {
  run_world(3, quick(), [](Context& context) {
    const std::vector<float> input(8, 1.0F);
    std::vector<float> output(8);
    const auto expect_mismatch = [&](const std::string& name, auto change, const std::string& text) {
      Request request = allreduce(name, input, &output);
      if (context.rank() == 2) change(request);
      auto other = context.engine().submit(allreduce("other", input, nullptr));
      auto work = context.engine().submit(request);
      try {
        work.wait();
        ADD_FAILURE() << name << ": no error on rank " << context.rank();
      } catch (const MismatchError& error) {
        EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("'" + name + "'"), testing::HasSubstr(text),
                                                 testing::HasSubstr("rank 2")));
      }
      other.wait();
      auto again = context.engine().submit(allreduce(name, input, &output));
      again.wait();
      EXPECT_THAT(output, testing::Each(3.0F));
    };
    expect_mismatch(
        "shape",
        [](Request& request) {
          request.sizes = {4, 2};
        },
        "shape [8] on rank 0, [4, 2]");
    expect_mismatch(
        "dtype", [](Request& request) { request.dtype = DType::i32; }, "dtype f32 on rank 0, i32");
    expect_mismatch(
        "op", [](Request& request) { request.op = ReduceOp::max; }, "reduction sum on rank 0, max");
    expect_mismatch(
        "scale", [](Request& request) { request.prescale = 0.5; }, "prescale 1 on rank 0, 0.5");
    expect_mismatch(
        "strides",
        [](Request& request) {
          request.sizes = {2, 2, 2};
          request.strides = {1, 2, 4};
        },
        "strides [1] on rank 0, [1, 2, 4]");
    expect_mismatch(
        "kind", [](Request& request) { request.kind = RequestKind::broadcast; }, "operation allreduce");
  });
}

TEST(NamedOperation, DuplicateNameIsUsageErrorAtOnce) {
  run_world(2, quick(), [](Context& context) {
    const std::vector<float> input(8, 1.0F);
    Request barrier;
    barrier.kind = RequestKind::barrier;
    if (context.rank() == 0) {
      auto first = context.engine().submit(allreduce("same", input, nullptr));
      EXPECT_THROW(context.engine().submit(allreduce("same", input, nullptr)), UsageError);
      barrier.name = "go";
      context.engine().submit(barrier).wait();
      first.wait();
    } else {
      barrier.name = "go";
      context.engine().submit(barrier).wait();
      context.engine().submit(allreduce("same", input, nullptr)).wait();
    }
  });
}

// kolo matches its own operations by these names.
class ReservedPrefix : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Names, ReservedPrefix, testing::Values("kolo/", "gradients/", "failures/"));

TEST_P(ReservedPrefix, IsUsageErrorOfSubmitForEveryKind) {
  run_world(2, quick(), [](Context& context) {
    const std::vector<float> input(8, 1.0F);
    for (const auto kind :
         {RequestKind::allreduce, RequestKind::broadcast, RequestKind::allgather, RequestKind::barrier}) {
      for (const std::string& name : {GetParam(), GetParam() + "0", GetParam() + "weights of gradients/0"}) {
        Request request = allreduce(name, input, nullptr);
        request.kind = kind;
        try {
          static_cast<void>(context.engine().submit(request));
          ADD_FAILURE() << name << " was taken";
        } catch (const UsageError& error) {
          EXPECT_THAT(error.what(), testing::HasSubstr("begin with " + GetParam()));
        }
      }
    }
    context.engine().submit(allreduce("kolo", input, nullptr)).wait();
  });
}

// Requests that no rank can execute, with the text of the error.
std::vector<std::pair<std::string, std::function<void(Request&)>>> malformed(int size) {
  return {
      {"negative size -1", [](Request& request) { request.sizes = {-1}; }},
      {"2 strides for 1 sizes",
       [](Request& request) {
         request.strides = {1, 1};
       }},
      {"strides [2] of sizes [8] leave gaps or overlap", [](Request& request) { request.strides = {2}; }},
      {"strides [0] of sizes [8]", [](Request& request) { request.strides = {0}; }},
      {"strides [5, 1] of sizes [2, 4]",
       [](Request& request) {
         request.sizes = {2, 4};
         request.strides = {5, 1};
       }},
      {"strides [1, 1] of sizes [2, 4]",
       [](Request& request) {
         request.sizes = {2, 4};
         request.strides = {1, 1};
       }},
      {"root " + std::to_string(size),
       [size](Request& request) {
         request.kind = RequestKind::broadcast;
         request.root = size;
       }},
      {"kind, dtype or op", [](Request& request) { request.op = static_cast<ReduceOp>(99); }},
      {"overflow",
       [](Request& request) {
         request.sizes = {std::int64_t{1} << 62, std::int64_t{1} << 62};
       }},
      {"input is a null pointer", [](Request& request) { request.input = nullptr; }},
      {"a scale is not finite", [](Request& request) { request.prescale = std::numeric_limits<double>::infinity(); }},
      {"scales need a floating-point dtype",
       [](Request& request) {
         request.dtype = DType::i32;
         request.prescale = 0.5;
       }},
      {"no such tensor", [](Request& request) { request.refused = "no such tensor"; }},
  };
}

TEST(NamedOperation, ReservedNameIsUsageErrorWithOneRank) {
  run_world(1, quick(), [](Context& context) {
    const std::vector<float> input(8, 1.0F);
    EXPECT_THROW(context.engine().submit(allreduce("gradients/0", input, nullptr)), UsageError);
    EXPECT_THROW(context.engine().submit(allreduce("failures/0", input, nullptr)), UsageError);
  });
}

TEST_P(NamedOperation, InvalidRequestOfOneRankIsUsageErrorOnEveryRank) {
  run_world(GetParam(), quick(), [](Context& context) {
    const Rank odd = context.size() - 1;
    const std::vector<float> input(8, 1.0F);
    std::vector<float> output(8, -1.0F);
    for (const auto& [text, change] : malformed(context.size())) {
      for (const bool on_all : {false, true}) {
        Request request = allreduce("x", input, &output);
        if (on_all || context.rank() == odd) change(request);
        auto before = context.engine().submit(allreduce("before", input, nullptr));
        auto work = context.engine().submit(request);
        auto after = context.engine().submit(allreduce("after", input, nullptr));
        try {
          work.wait();
          ADD_FAILURE() << text << ": no error on rank " << context.rank();
        } catch (const UsageError& error) {
          EXPECT_THAT(error.what(), testing::HasSubstr(text));
          EXPECT_THAT(error.what(), testing::StartsWith("'x' was refused on rank"));
          const std::string who = on_all ? "on rank" : "rank " + std::to_string(odd) + ":";
          EXPECT_THAT(error.what(), testing::HasSubstr(who));
        }
        EXPECT_THAT(output, testing::Each(-1.0F)) << text;
        before.wait();
        after.wait();
      }
      std::vector<float> sum(8);
      context.engine().submit(allreduce("x", input, &sum)).wait();
      EXPECT_THAT(sum, testing::Each(static_cast<float>(context.size()))) << text;
    }
  });
}

// The text comes from the first of the ranks that the error names.
TEST(NamedOperation, RefusalNamesAllRanksThatRefuse) {
  run_world(4, quick(), [](Context& context) {
    const std::vector<float> input(8, 1.0F);
    Request request = allreduce("x", input, nullptr);
    if (context.rank() % 2 == 1) request.refused = "reason of rank " + std::to_string(context.rank());
    auto work = context.engine().submit(request);
    try {
      work.wait();
      ADD_FAILURE() << "no error";
    } catch (const UsageError& error) {
      EXPECT_STREQ(error.what(), "'x' was refused on ranks 1, 3: reason of rank 1");
    }
  });
}

TEST(NamedOperation, AllgatherRefusedByOneRankFailsOnAllRanksAndNextWorks) {
  run_world(3, quick(), [](Context& context) {
    const std::vector<float> input(static_cast<std::size_t>(1 + context.rank()), 1.0F);
    Request request = allreduce("x", input, nullptr);
    request.kind = RequestKind::allgather;
    Request odd = request;
    if (context.rank() == 0) odd.refused = "no such tensor";
    EXPECT_THROW(context.engine().submit(odd).wait(), UsageError);
    auto work = context.engine().submit(request);
    work.wait();
    EXPECT_EQ(work.result().size(), 6 * sizeof(float));
  });
}

// All ranks have the error, so no rank reports it to its peers.
TEST(NamedOperation, RefusalInContextRunFailsNoLaterOperation) {
  run_world(3, quick(), [](Context& context) {
    const std::vector<float> input(8, 1.0F);
    for (int repeat = 0; repeat < 3; ++repeat) {
      Request request = allreduce("x", input, nullptr);
      if (context.rank() == 1) request.refused = "no such tensor";
      EXPECT_THROW(context.run([&] { context.engine().submit(request).wait(); }), UsageError);
      std::vector<float> output(8);
      context.engine().submit(allreduce("x", input, &output)).wait();
      EXPECT_THAT(output, testing::Each(3.0F));
    }
  });
}

TEST(NamedOperation, DenseStridesInAnyOrderAreReduced) {
  run_world(2, quick(), [](Context& context) {
    const std::vector<float> input(8, 1.0F);
    std::vector<float> output(8);
    Request request = allreduce("x", input, &output);
    request.sizes = {2, 1, 4};
    request.strides = {1, 7 + context.rank(), 2};
    context.engine().submit(request).wait();
    EXPECT_THAT(output, testing::Each(2.0F));
    request.kind = RequestKind::allgather;
    request.output = nullptr;
    request.sizes = {context.rank() == 0 ? 1 : 2, 2, 2};
    request.strides = {4, 1, 2};
    auto work = context.engine().submit(request);
    work.wait();
    EXPECT_EQ(work.result().size(), 12 * sizeof(float));
  });
}

TEST(Negotiation, DepthOfMessagesIsLogarithmic) {
  run_world(32, quick(CoordinatorMode::never), [](Context& context) {
    const std::vector<float> input(8, 1.0F);
    context.engine().submit(allreduce("x", input, nullptr)).wait();
    // Depth of the tree of 32 ranks is 5: five messages up, at most five down.
    EXPECT_LE(context.counters().at("control_depth_max"), 10U);
    EXPECT_LE(context.counters().at("control_messages"), 3U);
    context.communicator().barrier(std::chrono::seconds(20));  // nobody leaves before, of which others tell each other
  });
}

TEST(Context, TwoGroupsOfOneProcessWorkAtOnceAndAgain) {
  for (int repeat = 0; repeat < 3; ++repeat) {
    auto first = Context::create_local(2, quick());
    auto second = Context::create_local(2, quick());
    run_ranks(2, [&](int rank) {
      for (auto* world : {&first, &second}) {
        auto& context = *(*world)[static_cast<std::size_t>(rank)];
        const std::vector<float> input(8, 1.0F);
        std::vector<float> output(8);
        context.engine().submit(allreduce("x", input, &output)).wait();
        EXPECT_THAT(output, testing::Each(2.0F));
      }
    });
  }
}

}  // namespace
}  // namespace kolo::test
