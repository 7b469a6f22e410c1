// Ranks that throw, do not call an operation or shut down their Context, as processes: the errors of all other ranks.
#include <gmock/gmock.h>

#include "multirank/faults/process_world.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

std::vector<GradientInfo> table() {
  return {{"a", {1000}, {1}, DType::f32}, {"b", {2000}, {1}, DType::f32}, {"c", {10}, {1}, DType::f32}};
}

class Rounds {
 public:
  explicit Rounds(Context& context) : reducer_(context.engine().make_reducer(table(), {})) {}
  void contribute(std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) reducer_->contribute(i, ones_.data());
  }
  void round() {
    contribute(0, 3);
    reducer_->finish();
  }

 private:
  std::unique_ptr<GradientReducer> reducer_;
  std::vector<float> ones_ = std::vector<float>(2000, 1.0F);
};

// --- exceptions in training code ---

template <class Call>
void expect_peer_failed(Call call, Rank failed) {
  try {
    call();
    ADD_FAILURE() << "no error";
  } catch (const PeerFailedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("bad batch"));
    EXPECT_THAT(error.ranks(), testing::ElementsAre(failed));
  }
}

TEST(RankFailure, InRoundReachesPeersWithItsTextAndNextRoundWorks) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    Rounds rounds(context);
    for (const auto& [clean_before, contributed] : {std::pair{0, 0}, {0, 2}, {1, 0}, {3, 1}, {2, 3}}) {
      for (int step = 0; step < clean_before; ++step) rounds.round();
      if (!roles.is_odd) {
        expect_peer_failed([&] { context.run([&] { rounds.round(); }); }, roles.odd);
        continue;
      }
      const auto fail = [&, contributed = contributed] {
        rounds.contribute(0, static_cast<std::size_t>(contributed));
        throw std::runtime_error("bad batch");
      };
      EXPECT_THROW(context.run(fail), std::runtime_error);
    }
    rounds.round();
  });
}

TEST(RankFailure, ReachesPeersThatWaitForNamedOperation) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    const std::vector<float> input(8, 1.0F);
    if (roles.is_odd) {
      meet_all();
      EXPECT_THROW(context.run([] { throw std::runtime_error("bad batch"); }), std::runtime_error);
    } else {
      auto work = context.engine().submit(allreduce("metric", input, nullptr));
      meet_all();
      expect_peer_failed([&] { work.wait(); }, roles.odd);
    }
    context.engine().submit(allreduce("metric", input, nullptr)).wait();
  });
}

void sum_directly(Context& context) {
  float value = 1.0F;
  AllreduceOptions options;
  options.data = reinterpret_cast<std::byte*>(&value);
  options.count = 1;
  context.communicator().allreduce(options, context.config().timeout);
  EXPECT_EQ(value, static_cast<float>(context.size()));
}

TEST(RankFailure, ReachesPeersInDirectCollectiveAndEndsGroup) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    sum_directly(context);
    if (roles.is_odd) {
      EXPECT_THROW(context.run([] { throw std::runtime_error("bad batch"); }), std::runtime_error);
    }
    expect_peer_failed([&] { sum_directly(context); }, roles.odd);
    expect_peer_failed([&] { Rounds rounds(context); }, roles.odd);
  });
}

TEST(RankFailure, ReachesPeersInFirstMakeReducer) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    if (roles.is_odd) {
      EXPECT_THROW(context.run([] { throw std::runtime_error("bad batch"); }), std::runtime_error);
    } else {
      expect_peer_failed([&] { Rounds rounds(context); }, roles.odd);
    }
  });
}

TEST(Shutdown, FailsPendingCollectivesOfPeers) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    for (int i = 0; i < 100; ++i) sum_directly(context);
    if (roles.is_odd) return context.shutdown();
    try {
      sum_directly(context);
      ADD_FAILURE() << "no error";
    } catch (const PeerLostError& error) {
      EXPECT_EQ(error.rank(), roles.odd);
      EXPECT_THAT(error.what(), HasSubstr("has shut down its Context"));
      EXPECT_THROW(std::rethrow_exception(context.failure()), PeerLostError);
    }
  });
}

// --- names ---

TEST(NamedOperation, DuplicateNameIsUsageErrorOnItsRankOnly) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    const std::vector<float> input(8, 1.0F);
    std::vector<float> output(8);
    if (!roles.is_odd) meet_all();
    auto work = context.engine().submit(allreduce("same", input, &output));
    if (roles.is_odd) {
      try {
        context.engine().submit(allreduce("same", input, nullptr));
        ADD_FAILURE() << "no error";
      } catch (const UsageError& error) {
        EXPECT_THAT(error.what(), HasSubstr("'same'"));
      }
      meet_all();
    }
    work.wait();
    EXPECT_THAT(output, testing::Each(static_cast<float>(context.size())));
    context.engine().submit(allreduce("same", input, nullptr)).wait();
  });
}

// --- deadlines ---

Config impatient() {
  auto config = quick();
  config.timeout = 500ms;
  config.stall_warning = 100ms;
  return config;
}

template <class Call>
void expect_timeout(Call call, const std::string& name, Rank missing) {
  try {
    call();
    ADD_FAILURE() << "no error";
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr(name));
    EXPECT_THAT(error.what(), HasSubstr("rank " + std::to_string(missing)));
    if (!error.missing().empty()) {  // sometimes only the text says it
      EXPECT_THAT(error.missing(), testing::ElementsAre(missing)) << error.what();
    }
  }
}

TEST(Timeout, OfNamedOperationNamesOperationAndMissingRank) {
  for_every_odd_rank(impatient(), [](Context& context, const Roles& roles) {
    const std::vector<float> input(8, 1.0F);
    if (!roles.is_odd) {
      auto work = context.engine().submit(allreduce("lonely", input, nullptr));
      expect_timeout([&] { work.wait(); }, "'lonely'", roles.odd);
    }
    meet_all();
    Request barrier;  // after it every rank has heard of the withdrawal
    barrier.name = "heard";
    barrier.kind = RequestKind::barrier;
    context.engine().submit(barrier).wait();
    context.engine().submit(allreduce("lonely", input, nullptr)).wait();
  });
}

TEST(Timeout, OfOneWaitDoesNotEndOperation) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    const std::vector<float> input(8, 1.0F);
    if (!roles.is_odd) {
      auto work = context.engine().submit(allreduce("slow", input, nullptr));
      EXPECT_THROW(work.wait_for(50ms), TimeoutError);
      EXPECT_FALSE(work.done());
      meet_all();
      work.wait();
    } else {
      meet_all();
      context.engine().submit(allreduce("slow", input, nullptr)).wait();
    }
  });
}

TEST(Timeout, OfRoundNamesMissingRank) {
  for (const int clean : {0, 2}) {
    SCOPED_TRACE(std::to_string(clean) + " rounds before");
    for_every_odd_rank(impatient(), [clean](Context& context, const Roles& roles) {
      Rounds rounds(context);
      for (int step = 0; step < clean; ++step) rounds.round();
      if (!roles.is_odd) expect_timeout([&] { rounds.round(); }, "gradients/0", roles.odd);
      meet_all();
    });
  }
}

TEST(Timeout, OfDirectCollectiveNamesMissingRank) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    context.communicator().barrier(20s);
    if (!roles.is_odd) expect_timeout([&] { context.communicator().barrier(300ms); }, "barrier", roles.odd);
  });
}

// --- leaving ---

template <class Call>
void expect_lost(Call call, Rank lost) {
  try {
    call();
    ADD_FAILURE() << "no error";
  } catch (const PeerLostError& error) {
    EXPECT_EQ(error.rank(), lost) << error.what();
  }
}

TEST(Shutdown, FailsPendingAndLaterOperationsOfPeers) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    const std::vector<float> input(8, 1.0F);
    if (roles.is_odd) {
      auto own = context.engine().submit(allreduce("only here", input, nullptr));
      meet_all();
      context.shutdown();
      EXPECT_THROW(own.wait(), Error);
      EXPECT_THROW(context.engine().submit(allreduce("later", input, nullptr)), Error);
    } else {
      auto work = context.engine().submit(allreduce("pending", input, nullptr));
      meet_all();
      expect_lost([&] { work.wait(); }, roles.odd);
      expect_lost([&] { context.engine().submit(allreduce("later", input, nullptr)).wait(); }, roles.odd);
    }
  });
}

TEST(Shutdown, FailsRoundOfPeers) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    {
      Rounds rounds(context);
      for (int step = 0; step < 3; ++step) rounds.round();
      if (!roles.is_odd) expect_lost([&] { rounds.round(); }, roles.odd);
    }
    if (roles.is_odd) context.shutdown();
  });
}

// Ranks shut down at different moments. Each operation that a rank submits or waits for completes or fails.
TEST(Shutdown, OfAllRanksEndsWorkInFlight) {
  const std::vector<float> input(200'000, 1.0F);
  for (int repeat = 0; repeat < 8; ++repeat) {
    std::vector<Work> works;
    {
      auto context = Context::create(quick());
      try {
        for (int i = 0; i < repeat % 4; ++i) {
          works.push_back(context->engine().submit(allreduce("t" + std::to_string(i), input, nullptr)));
        }
        const auto alone = "only " + std::to_string(context->rank());
        works.push_back(context->engine().submit(allreduce(alone, input, nullptr)));
      } catch (const PeerLostError&) {  // somebody was faster
      }
      if (repeat % 2 == 0) context->shutdown();
    }
    for (auto& work : works) {
      try {
        work.wait();
      } catch (const Error&) {  // either is right; what counts is that it ends
      }
    }
    meet_all();
  }
}

}  // namespace
}  // namespace kolo::test
