// Collectives of the communicator that one rank does not call, because it has thrown or shut down its Context.
#include <gmock/gmock.h>

#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "multirank/engine/world.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

std::vector<GradientInfo> table() { return {{"a", {1000}, {1}, DType::f32}, {"b", {10}, {1}, DType::f32}}; }

float sum(Context& context, float value) {
  AllreduceOptions options;
  options.data = reinterpret_cast<std::byte*>(&value);
  options.count = 1;
  context.communicator().allreduce(options, context.config().timeout);
  return value;
}

void named(Context& context, const std::string& name) {
  const std::vector<float> input(4, 1.0F);
  context.engine().submit(allreduce(name, input, nullptr)).wait();
}

// The error that `call` throws, as text after its type; empty if it throws none.
template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const PeerFailedError& error) {
    return std::string("failed: ") + error.what();
  } catch (const PeerLostError& error) {
    return std::string("lost: ") + error.what();
  } catch (const std::exception& error) {
    return std::string("other: ") + error.what();
  }
  return "";
}

[[noreturn]] void throw_it() { throw std::runtime_error("bad batch"); }

// On one host, over the network, and both; with a coordinator, and without.
class DirectCalls : public testing::TestWithParam<std::tuple<Hosts, CoordinatorMode>> {
 protected:
  [[nodiscard]] Hosts hosts() const { return std::get<0>(GetParam()); }
  template <class Body>
  void run(Body body) const {
    run_world(hosts(), quick(std::get<1>(GetParam())), std::move(body));
  }
  // The rank that fails.
  [[nodiscard]] static bool is_odd(Context& context) { return context.rank() == context.size() - 1; }
};
INSTANTIATE_TEST_SUITE_P(Worlds, DirectCalls,
                         testing::Combine(testing::Values(one_host(2), one_host(5), Hosts{0, 1, 2}, Hosts{0, 0, 1},
                                                          Hosts{0, 1, 0, 1}),
                                          testing::Values(CoordinatorMode::always, CoordinatorMode::never)));

const auto kTold = AllOf(HasSubstr("failed: training code failed on rank"), HasSubstr("bad batch"));

TEST_P(DirectCalls, ExceptionReachesWaitingPeersAndEndsGroup) {
  run([](Context& context) {
    EXPECT_EQ(sum(context, 1.0F), static_cast<float>(context.size()));
    if (is_odd(context)) {
      EXPECT_THROW(context.run(throw_it), std::runtime_error);
    } else {
      EXPECT_THAT(error_of([&] { context.run([&] { sum(context, 1.0F); }); }), kTold);
    }
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT(error_of([&] { sum(context, 1.0F); }), kTold);
      EXPECT_THAT(error_of([&] { named(context, "metric"); }), kTold);
    }
  });
}

TEST_P(DirectCalls, ExceptionReachesPeersThatCallLater) {
  run([](Context& context) {
    if (is_odd(context)) {
      EXPECT_THROW(context.run(throw_it), std::runtime_error);
    } else {
      std::this_thread::sleep_for(100ms);
    }
    EXPECT_THAT(error_of([&] { sum(context, 1.0F); }), kTold);
  });
}

// The program throws an error of a type of kolo that other ranks have not thrown.
template <class Error>
void throw_own(Context& context) {
  EXPECT_THROW(context.run([] { throw Error({0}, "bad batch"); }), Error);
}
TEST_P(DirectCalls, KoloErrorThrownByProgramReachesPeers) {
  for (const auto& fail : {throw_own<PeerFailedError>, throw_own<TimeoutError>}) {
    run([fail](Context& context) {
      if (is_odd(context)) fail(context);
      EXPECT_THAT(error_of([&] { sum(context, 1.0F); }), kTold);
    });
  }
}

// The failed rank calls its next collective at once, while the peers are still in the previous one.
TEST_P(DirectCalls, NextCallOfFailedRankDoesNotMatchCallOfPeers) {
  for (int trial = 0; trial < 20; ++trial) {
    run([](Context& context) {
      if (is_odd(context)) {
        EXPECT_THROW(context.run(throw_it), std::runtime_error);
      }
      EXPECT_THAT(error_of([&] { sum(context, is_odd(context) ? 1000.0F : 1.0F); }), kTold);
    });
  }
}

TEST_P(DirectCalls, RanksWithDifferentFailureCountsDoNotMatch) {
  run([](Context& context) {
    if (is_odd(context)) {
      EXPECT_THROW(context.run(throw_it), std::runtime_error);
    } else {
      std::this_thread::sleep_for(50ms);
    }
    EXPECT_THROW(context.run(throw_it), std::runtime_error);
    EXPECT_THAT(error_of([&] { sum(context, is_odd(context) ? 1000.0F : 1.0F); }), kTold);
  });
}

TEST_P(DirectCalls, ExceptionReachesPeersInAllocate) {
  run([](Context& context) {
    const std::size_t bytes = 1 << 20;
    static_cast<void>(context.communicator().allocate({&bytes, 1}, 20s));
    if (is_odd(context)) {
      EXPECT_THROW(context.run(throw_it), std::runtime_error);
      return;
    }
    // On a host of its own a rank waits for nobody.
    const auto text = error_of([&] {
      static_cast<void>(context.communicator().allocate({&bytes, 1}, 20s));
      sum(context, 1.0F);
    });
    EXPECT_THAT(text, kTold);
  });
}

TEST_P(DirectCalls, ExceptionReachesPeersInFirstMakeReducer) {
  run([](Context& context) {
    if (is_odd(context)) {
      std::this_thread::sleep_for(100ms);
      EXPECT_THROW(context.run(throw_it), std::runtime_error);
      return;
    }
    EXPECT_THAT(error_of([&] { static_cast<void>(context.engine().make_reducer(table(), {})); }), kTold);
  });
}

TEST_P(DirectCalls, ExceptionReachesPeersThatMakeFirstReducerLater) {
  run([](Context& context) {
    if (is_odd(context)) {
      EXPECT_THROW(context.run(throw_it), std::runtime_error);
      std::this_thread::sleep_for(200ms);
      return;
    }
    std::this_thread::sleep_for(100ms);
    EXPECT_THAT(error_of([&] { static_cast<void>(context.engine().make_reducer(table(), {})); }), kTold);
  });
}

// A rank that continues at once must not be matched with peers that are still in the failed round.
TEST_P(DirectCalls, WorkAfterFailedRound) {
  run([](Context& context) {
    auto reducer = context.engine().make_reducer(table(), {});
    const std::vector<float> ones(1000, 1.0F);
    for (int step = 0; step < 30; ++step) {
      const bool bad = step % 3 == 2 && context.rank() == step / 3 % context.size();
      const auto error = error_of([&] {
        context.run([&] {
          if (bad) throw_it();
          reducer->contribute(0, ones.data());
          reducer->finish();
        });
      });
      EXPECT_EQ(error.empty(), step % 3 != 2);
      EXPECT_EQ(sum(context, static_cast<float>(step)), static_cast<float>(step * context.size()));
    }
  });
}

TEST_P(DirectCalls, WorkAfterFailedNamedOperation) {
  run([](Context& context) {
    for (int step = 0; step < 5; ++step) {
      if (is_odd(context)) {
        std::this_thread::sleep_for(5ms);
        EXPECT_THROW(context.run(throw_it), std::runtime_error);
      } else {
        EXPECT_THAT(error_of([&] { named(context, "metric " + std::to_string(step)); }), kTold);
      }
      EXPECT_EQ(sum(context, static_cast<float>(step)), static_cast<float>(step * context.size()));
    }
  });
}

// For example if all ranks find that a file is missing: they fail at the same place.
TEST_P(DirectCalls, WorkAfterFailureOfAllRanks) {
  run([](Context& context) {
    for (int step = 0; step < 10; ++step) {
      // At the same time, in any order, and one after the other has heard of it.
      if (step % 2 == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20 * context.rank()));
      EXPECT_THROW(context.run(throw_it), std::runtime_error);
      EXPECT_EQ(sum(context, static_cast<float>(step)), static_cast<float>(step * context.size()));
    }
  });
}

TEST_P(DirectCalls, FailureOfAllOtherRanksReachesLastRank) {
  run([](Context& context) {
    for (int step = 0; step < 3; ++step) sum(context, 1.0F);
    if (is_odd(context)) {
      std::this_thread::sleep_for(50ms);
    } else {
      EXPECT_THROW(context.run(throw_it), std::runtime_error);
    }
    EXPECT_THAT(error_of([&] { sum(context, 1.0F); }), kTold);
  });
}

TEST_P(DirectCalls, FailureReachesPeerLateForNamedOperation) {
  run([](Context& context) {
    if (is_odd(context)) {
      std::this_thread::sleep_for(5ms);
      EXPECT_THROW(context.run(throw_it), std::runtime_error);
    } else {
      if (context.rank() == 0) std::this_thread::sleep_for(100ms);
      EXPECT_THAT(error_of([&] { named(context, "metric"); }), kTold);
    }
    EXPECT_EQ(sum(context, 1.0F), static_cast<float>(context.size()));
    named(context, "metric");
  });
}

TEST_P(DirectCalls, SecondFailureOfSameStepDoesNotEndLaterOperations) {
  run([](Context& context) {
    for (int step = 0; step < 3; ++step) {
      if (is_odd(context)) std::this_thread::sleep_for(60ms);
      EXPECT_THROW(context.run(throw_it), std::runtime_error);
      named(context, "after");
      EXPECT_EQ(sum(context, 1.0F), static_cast<float>(context.size()));
    }
  });
}

TEST_P(DirectCalls, ExceptionReachesPeersInSecondMakeReducer) {
  run([](Context& context) {
    auto reducer = context.engine().make_reducer(table(), {});
    reducer->finish();
    sum(context, 1.0F);  // nobody is in that round any more: what a rank still has pending ends with the group
    if (is_odd(context)) {
      EXPECT_THROW(context.run(throw_it), std::runtime_error);
      return;
    }
    EXPECT_THAT(error_of([&] { static_cast<void>(context.engine().make_reducer(table(), {})); }), kTold);
  });
}

TEST_P(DirectCalls, FailAtOnceAfterTimeoutHasEndedGroup) {
  auto config = quick(std::get<1>(GetParam()));
  config.timeout = 1s;
  run_world(hosts(), config, [](Context& context) {
    auto reducer = context.engine().make_reducer(table(), {});
    reducer->finish();
    if (is_odd(context)) {
      std::this_thread::sleep_for(1500ms);
    } else {
      EXPECT_THAT(error_of([&] { reducer->finish(); }), HasSubstr("timeout after"));
    }
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_THAT(error_of([&] { sum(context, 1.0F); }), HasSubstr("timeout after"));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 900ms);
  });
}

TEST_P(DirectCalls, ShutdownOfOneRankIsPeerLostErrorOnPeers) {
  run([](Context& context) {
    for (int i = 0; i < 100; ++i) sum(context, 1.0F);
    if (is_odd(context)) return context.shutdown();
    EXPECT_THAT(error_of([&] { sum(context, 1.0F); }),
                AllOf(HasSubstr("lost: "), HasSubstr("has shut down its Context")));
  });
}

TEST_P(DirectCalls, ShutdownAfterFailureIsErrorThatNamesFailure) {
  run([](Context& context) {
    auto reducer = context.engine().make_reducer(table(), {});
    const auto train = [&] {
      if (is_odd(context)) throw_it();
      reducer->finish();
    };
    EXPECT_THAT(error_of([&] { context.run(train); }), HasSubstr("bad batch"));
    if (is_odd(context)) return context.shutdown();
    const auto why = AllOf(kTold, HasSubstr("has shut down its Context"));
    EXPECT_THAT(error_of([&] { reducer->finish(); }), why);
    EXPECT_THAT(error_of([&] { sum(context, 1.0F); }), why);
  });
}

// Programs of direct calls and rounds in which a rank throws somewhere and all ranks continue as long as possible. What
// completes has the right value, and the group ends on all ranks or on none.
class RandomProgram {
 public:
  RandomProgram(Context& context, unsigned seed) : context_(context), random_(seed) {}
  void run() {
    auto reducer = context_.engine().make_reducer(table(), {});
    sum(context_, 1.0F);  // everybody has one
    std::string error;
    for (int step = 1; step <= 12; ++step) {
      const int bad_rank = below(2 * context_.size());
      const int bad_point = below(4);
      const auto point = [&](int here) {
        if (bad_rank == context_.rank() && bad_point == here) throw_it();
      };
      error = error_of([&] {
        context_.run([&] {
          point(0);
          meet(2 * reducer->round());
          point(1);
          reducer->contribute(0, ones_.data());
          reducer->finish();
          point(2);
          meet(2 * reducer->round() + 1);
          point(3);
        });
      });
    }
    const bool ended = error_of([&] { named(context_, "last"); }) != "";
    const bool calls_ended = error_of([&] { sum(context_, 1.0F); }) != "";
    EXPECT_TRUE(calls_ended || !ended) << error;
  }

 private:
  int below(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }
  // Ranks that have ended the same number of rounds are at the same place. If a rank throws after the last round of a
  // step, the next step fails too, on all ranks.
  void meet(std::uint64_t place) {
    std::this_thread::sleep_for(std::chrono::microseconds(delays_() % 300));
    const auto value = static_cast<float>(place);
    EXPECT_EQ(sum(context_, value), value * static_cast<float>(context_.size())) << "rank " << context_.rank();
  }

  Context& context_;
  std::mt19937 random_;  // the same on all ranks
  std::minstd_rand delays_{static_cast<unsigned>(context_.rank() + 1)};
  std::vector<float> ones_ = std::vector<float>(1000, 1.0F);
};

TEST_P(DirectCalls, RandomProgramsWithFailuresCompleteWithRightValues) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run([&](Context& context) { RandomProgram(context, seed).run(); });
  }
}

// After a collective that a rank gave up before it began, the numbers of its calls differ from those of its peers.
TEST(CollectiveTimeout, EndsGroupAndLaterCallsDoNotMatchEarlierOnes) {
  for (const auto& hosts : {one_host(2), one_host(3), Hosts{0, 1}, Hosts{0, 0, 1, 1}, Hosts{0, 1, 1, 0}}) {
    run_world(hosts, quick(), [](Context& context) {
      const bool late = context.rank() == 1;
      if (late) std::this_thread::sleep_for(500ms);
      for (const float mine : {1.0F, 100.0F, 10000.0F}) {
        float result = mine;
        AllreduceOptions options;
        options.data = reinterpret_cast<std::byte*>(&result);
        options.count = 1;
        try {
          context.communicator().allreduce(options, late ? 1s : 200ms);
          EXPECT_TRUE(late) << "rank " << context.rank() << " did not wait for rank 1";
          EXPECT_EQ(result, mine * static_cast<float>(context.size()));
          EXPECT_EQ(context.failure(), nullptr);
        } catch (const Error&) {  // whichever: this rank or another has given up
          EXPECT_NE(context.failure(), nullptr);
        }
      }
    });
  }
}

TEST(StallReport, OfDirectCallIsLoggedOnceWithLateRank) {
  std::mutex lock;
  std::vector<std::string> lines;
  auto config = quick();
  config.stall_warning = 100ms;
  config.log_sink = [&](LogLevel level, std::string_view line) {
    const std::lock_guard guard(lock);
    if (level == LogLevel::warn) lines.emplace_back(line);
  };
  run_world(2, config, [](Context& context) {
    context.communicator().barrier(20s);
    if (context.rank() == 1) std::this_thread::sleep_for(500ms);
    context.communicator().barrier(20s);
  });
  EXPECT_THAT(lines, testing::ElementsAre(HasSubstr("stall: waited_ms=100: barrier: waiting for rank 1")));
}

}  // namespace
}  // namespace kolo::test
