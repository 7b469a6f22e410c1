// The errors of the other ranks if one rank throws, shuts down its Context, does not submit or is late.
#include <gmock/gmock.h>

#include <barrier>
#include <optional>

#include "multirank/engine/world.h"

namespace kolo::test {
namespace {

std::vector<GradientInfo> table() {
  return {{"a", {1000}, {1}, DType::f32}, {"b", {2000}, {1}, DType::f32}, {"c", {10}, {1}, DType::f32}};
}

// In the first round (negotiated) and in a later one (frozen), before and after the first gradient.
class RankFailure : public testing::TestWithParam<std::tuple<Hosts, int, int>> {};
INSTANTIATE_TEST_SUITE_P(When, RankFailure,
                         testing::Combine(testing::Values(one_host(2), one_host(3), one_host(5), Hosts{0, 1, 0, 1}),
                                          testing::Values(0, 1, 4), testing::Values(0, 2)));

TEST_P(RankFailure, ReachesEveryRankWithItsTextAndNextRoundWorks) {
  const auto [hosts, bad_step, gradients_before] = GetParam();
  run_world(hosts, quick(), [&, bad_step = bad_step, gradients_before = gradients_before](Context& context) {
    auto reducer = context.engine().make_reducer(table(), {});
    const std::vector<float> ones(2000, 1.0F);
    for (int step = 0; step < 7; ++step) {
      const bool bad = step == bad_step && context.rank() == context.size() - 1;
      const auto train = [&] {
        for (std::size_t i = 0; i < 3; ++i) {
          if (bad && static_cast<int>(i) == gradients_before) throw std::runtime_error("bad batch");
          reducer->contribute(i, ones.data());
        }
        reducer->finish();
      };
      if (step != bad_step) {
        train();
        continue;
      }
      if (bad) {
        EXPECT_THROW(context.run(train), std::runtime_error);
        continue;
      }
      try {
        train();
        ADD_FAILURE() << "no error on rank " << context.rank();
      } catch (const PeerFailedError& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("bad batch"));
        EXPECT_THAT(error.ranks(), testing::ElementsAre(context.size() - 1));
        EXPECT_EQ(context.failure(), nullptr);
      }
    }
  });
}

// The reducer lives in the code that throws, like an optimizer in a training function: unwinding destroys it before
// Context::run catches the exception.
TEST(RankFailure, ReachesPeersAfterReducerIsDestroyed) {
  for (const int bad_step : {0, 1, 3}) {
    run_world(3, quick(), [&](Context& context) {
      const auto train = [&](int throws_at) {
        auto reducer = context.engine().make_reducer(table(), {});
        const std::vector<float> ones(2000, 1.0F);
        for (int step = 0; step < 5; ++step) {
          for (std::size_t i = 0; i < 3; ++i) {
            if (i == 1 && step == throws_at && context.rank() == 1) throw std::runtime_error("bad batch");
            reducer->contribute(i, ones.data());
          }
          reducer->finish();
        }
      };
      if (context.rank() == 1) {
        EXPECT_THROW(context.run([&] { train(bad_step); }), std::runtime_error);
      } else {
        try {
          context.run([&] { train(bad_step); });
          ADD_FAILURE();
        } catch (const PeerFailedError& error) {
          EXPECT_THAT(error.what(), testing::HasSubstr("bad batch"));
        }
      }
      context.run([&] { train(-1); });  // and all can begin anew
    });
  }
}

TEST(RankFailure, WithOtherTypeThanExceptionReachesPeers) {
  run_world(2, quick(), [](Context& context) {
    const std::vector<float> input(4, 1.0F);
    const auto wait = [&] { context.engine().submit(allreduce("metric", input, nullptr)).wait(); };
    if (context.rank() == 1) {
      EXPECT_THROW(context.run([] { throw 42; }), int);
      return;
    }
    try {
      wait();
      ADD_FAILURE() << "nobody has failed";
    } catch (const PeerFailedError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("an exception that is not a std::exception"));
    }
  });
}

TEST(RankFailure, ReachesPeersThatWaitForNamedOperation) {
  std::barrier<> submitted(3);
  run_world(3, quick(), [&](Context& context) {
    const std::vector<float> input(8, 1.0F);
    Attendance attendance(submitted);
    if (context.rank() == 2) {
      attendance.meet();
      EXPECT_THROW(context.run([] { throw std::runtime_error("no data"); }), std::runtime_error);
    } else {
      auto work = context.engine().submit(allreduce("metric", input, nullptr));
      attendance.meet();
      EXPECT_THROW(work.wait(), PeerFailedError);
    }
    context.engine().submit(allreduce("metric", input, nullptr)).wait();
  });
}

// The peers get the failure from an operation, and end the next round together with the failed rank. Also if the
// program throws a copy of the error.
TEST(RankFailure, BetweenRoundsIsReportedOnce) {
  for (const bool copied : {false, true}) {
    run_world(3, quick(), [&](Context& context) {
      auto reducer = context.engine().make_reducer(table(), {});
      const std::vector<float> ones(2000, 1.0F);
      const auto train = [&] {
        for (std::size_t i = 0; i < 3; ++i) reducer->contribute(i, ones.data());
        reducer->finish();
      };
      const auto measure = [&] {
        try {
          context.engine().submit(allreduce("metric", ones, nullptr)).wait();
        } catch (const PeerFailedError& error) {
          if (copied) throw error;  // NOLINT: not `throw;`
          throw;
        }
      };
      for (int step = 0; step < 3; ++step) {
        train();
        if (context.rank() == 2) {
          EXPECT_THROW(context.run([] { throw std::runtime_error("no data"); }), std::runtime_error);
        } else {
          EXPECT_THROW(context.run(measure), PeerFailedError);
        }
        EXPECT_EQ(reducer->round(), 2U * static_cast<unsigned>(step) + 2);
      }
      train();
      measure();
    });
  }
}

// The failed rank does not wait for its peers. Their TimeoutError names the failure anyway.
TEST(RankFailure, IsNamedInTimeoutErrorOfLatePeer) {
  auto config = quick();
  config.timeout = std::chrono::milliseconds(2000);
  run_world(2, config, [](Context& context) {
    auto reducer = context.engine().make_reducer(table(), {});
    const std::vector<float> ones(2000, 1.0F);
    const auto step = [&] {
      for (std::size_t i = 0; i < 3; ++i) reducer->contribute(i, ones.data());
      reducer->finish();
    };
    step();
    if (context.rank() == 1) {
      EXPECT_THROW(context.run([] { throw std::runtime_error("no more data"); }), std::runtime_error);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(4000));
    try {
      step();
      ADD_FAILURE();
    } catch (const TimeoutError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("rank 1: timeout after 2000 ms"));
      EXPECT_THAT(error.what(), testing::HasSubstr("no more data"));
    }
  });
}

TEST(Shutdown, FailsPendingOperationsOfPeers) {
  for (const int leaver : {0, 1, 3}) {
    auto contexts = Context::create_local(4, quick());
    run_ranks(4, [&](int rank) {
      auto& context = *contexts[static_cast<std::size_t>(rank)];
      const std::vector<float> input(8, 1.0F);
      context.engine().submit(allreduce("before", input, nullptr)).wait();
      if (rank == leaver) {
        context.shutdown();
        EXPECT_THROW(context.engine().submit(allreduce("after", input, nullptr)), UsageError);
        return;
      }
      try {
        context.engine().submit(allreduce("after", input, nullptr)).wait();
        ADD_FAILURE() << "no error on rank " << rank;
      } catch (const PeerLostError& error) {
        EXPECT_EQ(error.rank(), leaver);
      }
    });
  }
}

TEST(Shutdown, RoundThatRankHasFinishedCompletesOnPeers) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    auto contexts = Context::create_local(3, quick());
    run_ranks(3, [&](int rank) {
      auto& context = *contexts[static_cast<std::size_t>(rank)];
      const std::vector<float> ones(2000, 1.0F);
      {
        auto reducer = context.engine().make_reducer(table(), {});
        for (int step = 0; step < 3; ++step) {
          for (std::size_t i = 0; i < 3; ++i) reducer->contribute(i, ones.data());
          reducer->finish();
        }
        if (rank != 0) {
          const auto next_round = [&] {
            for (std::size_t i = 0; i < 3; ++i) reducer->contribute(i, ones.data());
            reducer->finish();
          };
          EXPECT_THROW(next_round(), PeerLostError);
        }
      }
      if (rank == 0) context.shutdown();
    });
  }
}

TEST(Shutdown, EndsWorkInFlightWithError) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::vector<std::optional<Work>> orphans(2);
    const std::vector<float> input(50000, 1.0F);
    {
      auto contexts = Context::create_local(2, quick());
      run_ranks(2, [&](int rank) {
        auto& context = *contexts[static_cast<std::size_t>(rank)];
        try {
          for (int i = 0; i < repeat % 4; ++i)
            context.engine().submit(allreduce("t" + std::to_string(i), input, nullptr));
          orphans[static_cast<std::size_t>(rank)] =
              context.engine().submit(allreduce("only" + std::to_string(rank), input, nullptr));
        } catch (const PeerLostError&) {  // the other was faster
        }
        context.shutdown();
      });
    }
    for (auto& orphan : orphans) {
      if (orphan) {
        EXPECT_THROW(orphan->wait(), Error);
      }
    }
  }
}

// On every rank that waits, for any place of the missing rank in the tree.
class OperationTimeout : public testing::TestWithParam<std::tuple<int, Rank>> {};
INSTANTIATE_TEST_SUITE_P(Missing, OperationTimeout,
                         testing::Values(std::tuple(2, 1), std::tuple(3, 2), std::tuple(4, 1), std::tuple(4, 3),
                                         std::tuple(7, 4)));

// The reports about one absent rank: in the errors of the others, and in the warnings before.
struct Said {
  std::vector<std::vector<Rank>> missing;
  std::vector<std::string> warnings;
};

Said wait_for_the_absent(int ranks, Rank absent, std::chrono::milliseconds timeout) {
  auto config = quick();
  config.timeout = timeout;
  config.stall_warning = timeout / 5;
  std::mutex lock;
  Said said;
  config.log_sink = [&](LogLevel, std::string_view line) {
    const std::scoped_lock guard(lock);
    said.warnings.emplace_back(line);
  };
  std::barrier<> all(ranks);
  run_world(ranks, config, [&](Context& context) {
    const std::vector<float> input(8, 1.0F);
    Attendance attendance(all);
    attendance.meet();
    if (context.rank() != absent) {
      auto work = context.engine().submit(allreduce("lonely", input, nullptr));
      try {
        work.wait();
        ADD_FAILURE();
      } catch (const TimeoutError& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("'lonely'"));
        EXPECT_THAT(error.missing(), testing::Contains(absent));
        EXPECT_TRUE(work.done()) << "withdrawn";
        EXPECT_EQ(context.failure(), nullptr);
        const std::scoped_lock guard(lock);
        said.missing.push_back(error.missing());
      }
    }
    attendance.meet();
    context.engine().submit(allreduce("lonely", input, nullptr)).wait();
  });
  return said;
}

// On a busy machine other ranks may be late too, and are then named rightly. The test therefore repeats with more time.
TEST_P(OperationTimeout, NamesTensorAndMissingRankAndFreesName) {
  const auto [ranks, absent] = GetParam();
  const auto exact = testing::Each(testing::ElementsAre(absent));
  const auto named = testing::Contains(
      testing::ContainsRegex("'lonely'.*not submitted by ranks? ([0-9]+, )*" + std::to_string(absent) + "($|[,;])"));
  Said said;
  for (const int milliseconds : {1500, 4500, 13500}) {
    said = wait_for_the_absent(ranks, absent, std::chrono::milliseconds(milliseconds));
    if (testing::Matches(exact)(said.missing) && testing::Matches(named)(said.warnings)) break;
  }
  EXPECT_THAT(said.missing, exact);
  EXPECT_THAT(said.warnings, named);
}

TEST(OperationTimeout, EndsGroupIfRootDoesNotAnswer) {
  auto config = quick(CoordinatorMode::never);  // so that an idle root does not listen
  config.timeout = std::chrono::milliseconds(300);
  std::barrier<> given_up(3);
  run_world(3, config, [&](Context& context) {
    const std::vector<float> input(8, 1.0F);
    Attendance attendance(given_up);
    if (context.rank() != 0) {
      EXPECT_THROW(context.engine().submit(allreduce("lonely", input, nullptr)).wait(), TimeoutError);
      EXPECT_THROW(context.engine().submit(allreduce("more", input, nullptr)), TimeoutError);
      EXPECT_THROW(std::rethrow_exception(context.failure()), TimeoutError);
    }
    attendance.meet();
  });
}

TEST(OperationTimeout, OfRoundThatOneRankDoesNotEnterIsError) {
  auto config = quick();
  config.timeout = std::chrono::milliseconds(2000);
  run_world(2, config, [](Context& context) {
    auto reducer = context.engine().make_reducer(table(), {});
    const std::vector<float> ones(2000, 1.0F);
    for (int step = 0; step < 3; ++step) {
      if (step == 2 && context.rank() == 1) return;
      for (std::size_t i = 0; i < 3; ++i) reducer->contribute(i, ones.data());
      if (step < 2) {
        reducer->finish();
      } else {
        EXPECT_THROW(reducer->finish(), Error);
      }
    }
  });
}

}  // namespace
}  // namespace kolo::test
