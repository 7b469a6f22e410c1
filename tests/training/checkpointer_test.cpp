// When a Checkpointer writes, what it does about failures, and what it restores.
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "kolo/error.h"
#include "training/checkpointed_program.h"

namespace kolo::test {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::int64_t> steps_in(const fs::path& folder) {
  std::vector<std::int64_t> steps;
  for (const auto& each : checkpoint::CheckpointDirectory(folder).list()) steps.push_back(each.info.step);
  return steps;
}

TEST(Checkpointer, FreshFolderStartsAtStep0) {
  const TemporaryFolder folder;
  on_ranks(2, [&](Context& context) {
    Program program(context, folder.path() / "run", {});
    EXPECT_EQ(program.checkpoints.restore(), 0);
  });
}

TEST(Checkpointer, ResumedRunHasWeightsOfUninterruptedRun) {
  for (const int ranks : {1, 3}) {
    const TemporaryFolder folder;
    on_ranks(ranks, [&](Context& context) {
      Program program(context, folder.path() / "run", {.every = 1000});
      (void)program.checkpoints.restore();
      program.run(5);
      EXPECT_EQ(program.checkpoints.finish(), 0);
    });
    const at::Tensor expected = uninterrupted(ranks, 9);
    on_ranks(ranks, [&](Context& context) {
      Program program(context, folder.path() / "run", {.every = 1000}, /*seed=*/99);
      ASSERT_EQ(program.done = program.checkpoints.restore(), 5);
      EXPECT_EQ(program.sampler.cursor(), 5 * 4 * ranks);
      program.run(9);
      EXPECT_TRUE(program.weights().equal(expected)) << "rank " << context.rank() << " of " << ranks;
    });
  }
}

TEST(Checkpointer, AnyNumberOfRanksRestores) {
  const TemporaryFolder folder;
  at::Tensor saved;
  on_ranks(2, [&](Context& context) {
    Program program(context, folder.path() / "run", {.every = 1000});
    (void)program.checkpoints.restore();
    program.run(3);
    (void)program.checkpoints.finish();
    if (context.rank() == 0) saved = program.weights();
  });
  for (const int ranks : {1, 4}) {
    on_ranks(ranks, [&](Context& context) {
      Program program(context, folder.path() / "run", {.every = 1000}, /*seed=*/99);
      EXPECT_EQ(program.checkpoints.restore(), 3);
      EXPECT_TRUE(program.weights().equal(saved));
    });
  }
}

TEST(Checkpointer, EveryStepsWritesThoseStepsInTheBackground) {
  const TemporaryFolder folder;
  on_ranks(2, [&](Context& context) {
    Program program(context, folder.path() / "run", {.every = 50, .keep = 2});
    (void)program.checkpoints.restore();
    program.run_until_written(3);
    EXPECT_EQ(program.checkpoints.counts().failed, 0);
    EXPECT_GT(program.checkpoints.counts().blocked.count(), 0);
  });
  const auto steps = steps_in(folder.path() / "run");
  EXPECT_LE(steps.size(), 3U);  // the deletion of the oldest may not have begun
  for (const auto step : steps) EXPECT_EQ(step % 50, 0);
}

TEST(Checkpointer, EveryTimeIsDueOnAllRanksInTheSameStep) {
  const TemporaryFolder folder;
  on_ranks(3, [&](Context& context) {
    Program program(context, folder.path() / "run", {.every = milliseconds(20)});
    (void)program.checkpoints.restore();
    program.run_until_written(2);
  });
  EXPECT_FALSE(steps_in(folder.path() / "run").empty());
}

TEST(Checkpointer, DueWhileWritingIsSkippedAndCounted) {
  const TemporaryFolder folder;
  on_ranks(2, [&](Context& context) {
    Program program(context, folder.path() / "run", {.every = 1});
    (void)program.checkpoints.restore();
    program.run(20);
    const auto& counts = program.checkpoints.counts();
    EXPECT_GT(counts.skipped, 0);
    EXPECT_EQ(program.checkpoints.finish(), 0);
    EXPECT_LE(counts.written + counts.skipped, 21);
  });
  EXPECT_EQ(steps_in(folder.path() / "run").back(), 20);
}

TEST(Checkpointer, StopRequestedOnOneRankStopsAllAfterTheSameStep) {
  const TemporaryFolder folder;
  std::mutex mutex;
  std::set<std::int64_t> stopped_at;
  on_ranks(3, [&](Context& context) {
    Program program(context, folder.path() / "run", {.every = 1000});
    (void)program.checkpoints.restore();
    program.run(4);
    if (context.rank() == 2) program.checkpoints.request_stop();
    program.run(1000);
    EXPECT_EQ(program.checkpoints.finish(), Checkpointer::kStoppedStatus);
    const std::scoped_lock lock(mutex);
    stopped_at.insert(program.done);
  });
  EXPECT_THAT(stopped_at, testing::ElementsAre(5));
  EXPECT_THAT(steps_in(folder.path() / "run"), testing::ElementsAre(5));
}

TEST(Checkpointer, FailedWriteIsCountedAndTheNextOneSucceeds) {
  const TemporaryFolder folder;
  on_ranks(2, [&](Context& context) {
    Program program(context, folder.path() / "run", {.every = 1000});
    (void)program.checkpoints.restore();
    program.run(2);
    context.barrier();
    if (context.rank() == 0) {
      fs::rename(folder.path() / "run", folder.path() / "away");
      std::ofstream(folder.path() / "run") << "a file";
    }
    context.barrier();
    EXPECT_THAT([&] { (void)program.checkpoints.finish(); },
                ThrowsMessage<BackendError>(testing::AllOf(HasSubstr("step=2 failed=1"), HasSubstr("cannot create"))));
    context.barrier();
    if (context.rank() == 0) {
      fs::remove(folder.path() / "run");
      fs::rename(folder.path() / "away", folder.path() / "run");
    }
    context.barrier();
    EXPECT_EQ(program.checkpoints.finish(), 0);
    EXPECT_EQ(program.checkpoints.counts().failed, 1);
    EXPECT_EQ(program.checkpoints.counts().written, 1);
  });
  EXPECT_THAT(steps_in(folder.path() / "run"), testing::ElementsAre(2));
}

void flip_a_byte(const fs::path& file) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(-1, std::ios::end);
  const char last = static_cast<char>(stream.peek());
  stream.seekp(-1, std::ios::end);
  stream.put(static_cast<char>(last ^ 1));
}

TEST(Checkpointer, DamagedCheckpointIsSkipped) {
  const TemporaryFolder folder;
  write_steps(folder.path(), 2, {2, 4});
  flip_a_byte(folder.path() / "checkpoint-000000000004" / "model.safetensors");
  on_ranks(2, [&](Context& context) {
    Program program(context, folder.path(), {.every = 1000});
    EXPECT_EQ(program.checkpoints.restore(), 2);
  });
}

TEST(Checkpointer, NoUndamagedCheckpointIsUsageErrorOnAllRanks) {
  const TemporaryFolder folder;
  write_steps(folder.path(), 1, {2});
  fs::remove(folder.path() / "checkpoint-000000000002" / "optimizer.safetensors");
  on_ranks(3, [&](Context& context) {
    Program program(context, folder.path(), {.every = 1000});
    EXPECT_THAT([&] { (void)program.checkpoints.restore(); },
                ThrowsMessage<UsageError>(testing::AllOf(HasSubstr("no checkpoint in"), HasSubstr("step 2: "),
                                                         HasSubstr("optimizer.safetensors"))));
  });
}

TEST(Checkpointer, UnreadableManifestIsUsageErrorNotAFreshStart) {
  const TemporaryFolder folder;
  write_steps(folder.path(), 1, {2});
  fs::resize_file(folder.path() / "checkpoint-000000000002" / "manifest.json", 20);
  on_ranks(2, [&](Context& context) {
    Program program(context, folder.path(), {});
    EXPECT_THAT([&] { (void)program.checkpoints.restore(); },
                ThrowsMessage<UsageError>(HasSubstr("checkpoint-000000000002: ")));
  });
}

// As after an exception on one rank between the optimizer's step() and that of the Checkpointer.
TEST(Checkpointer, RanksInDifferentStepsWriteNoCheckpoint) {
  const TemporaryFolder folder;
  on_ranks(2, [&](Context& context) {
    Program program(context, folder.path(), {.every = 10});
    (void)program.checkpoints.restore();
    program.run(5);
    if (context.rank() == 1) program.done -= 1;
    for (int i = 0; i < 60; ++i) program.run(program.done + 1);
    EXPECT_GT(program.checkpoints.counts().failed, 0);
    EXPECT_EQ(program.checkpoints.counts().written, 0);
    EXPECT_THAT([&] { (void)program.checkpoints.finish(); },
                ThrowsMessage<BackendError>(HasSubstr("rank 1 is in step")));
  });
  EXPECT_TRUE(steps_in(folder.path()).empty());
}

TEST(Checkpointer, CopyOfACheckpointUnderAnotherNameIsLeftAlone) {
  const TemporaryFolder folder;
  write_steps(folder.path(), 1, {2});
  fs::copy(folder.path() / "checkpoint-000000000002", folder.path() / "checkpoint-best");
  on_ranks(1, [&](Context& context) {
    Program program(context, folder.path(), {.every = 1000, .keep = 1});
    program.done = program.checkpoints.restore();
    program.run(3);
    (void)program.checkpoints.finish();
  });
  EXPECT_THAT(steps_in(folder.path()), testing::ElementsAre(3));
  EXPECT_TRUE(fs::exists(folder.path() / "checkpoint-best" / "manifest.json"));
}

TEST(Checkpointer, CheckpointOfAnotherWriterIsUsageError) {
  const TemporaryFolder folder;
  checkpoint::CheckpointDirectory(folder.path()).save({.step = 5}, [](const fs::path&) {});
  on_ranks(2, [&](Context& context) {
    Program program(context, folder.path(), {});
    EXPECT_THAT([&] { (void)program.checkpoints.restore(); },
                ThrowsMessage<UsageError>(HasSubstr("step 5: no Checkpointer has written it")));
  });
}

TEST(Checkpointer, StopFileStopsAllRanks) {
  const TemporaryFolder folder;
  on_ranks(2, [&](Context& context) {
    Program program(context, folder.path() / "run", {.every = 100'000, .stop_file = folder.path() / "stop"});
    (void)program.checkpoints.restore();
    program.run(3);
    if (context.rank() == 0) (void)folder.write("stop", "");
    program.run(50'000'000);
    EXPECT_EQ(program.checkpoints.finish(), Checkpointer::kStoppedStatus);
  });
}

TEST(Checkpointer, GracePeriodThatIsTooShortStartsNoWrite) {
  const TemporaryFolder folder;
  on_ranks(2, [&](Context& context) {
    Program program(context, folder.path(), {.every = 100'000, .grace = milliseconds(50)});
    (void)program.checkpoints.restore();
    program.run(2);
    EXPECT_EQ(program.checkpoints.finish(), 0);
    program.checkpoints.request_stop();
    program.run(100);
    std::this_thread::sleep_for(milliseconds(60));
    EXPECT_EQ(program.checkpoints.finish(), Checkpointer::kStoppedStatus);
    EXPECT_EQ(program.checkpoints.counts().written, 1);
  });
}

// Two hosts with a folder of their own each, as seen by ranks whose `folder` differs.
TEST(Checkpointer, HostsWithoutSharedFolderEachHoldAPart) {
  const TemporaryFolder folder;
  const std::vector<int> hosts = {0, 0, 1};
  const auto run = [&](const std::function<void(Program&)>& body, double seed) {
    auto contexts = Context::create_local(hosts);
    run_ranks(3, [&](int rank) {
      const auto place = static_cast<std::size_t>(rank);
      Program program(*contexts[place], folder.path() / std::to_string(hosts[place]), {.every = 1000, .keep = 0}, seed);
      body(program);
    });
  };
  run(
      [](Program& program) {
        (void)program.checkpoints.restore();
        for (const std::int64_t step : {2, 4}) {
          program.run(step);
          EXPECT_EQ(program.checkpoints.finish(), 0);
        }
      },
      1);
  EXPECT_THAT(names_in(folder.path() / "1" / "checkpoint-000000000004"),
              testing::ElementsAre("manifest.json", "rank-00002.pt"));
  run([](Program& program) { EXPECT_EQ(program.checkpoints.restore(), 4); }, 99);
  fs::remove_all(folder.path() / "1" / "checkpoint-000000000004");
  run([](Program& program) { EXPECT_EQ(program.checkpoints.restore(), 2); }, 99);
}

TEST(Checkpointer, SecondProgramCannotWriteToTheFolder) {
  const TemporaryFolder folder;
  on_ranks(2, [&](Context& context) {
    const Program first(context, folder.path(), {});
    auto others = Context::create_local(1);
    if (context.rank() == 0) {
      EXPECT_THAT([&] { const Checkpointer second(*others[0], folder.path(), {}); },
                  ThrowsMessage<UsageError>(HasSubstr("Checkpointer was refused on rank 0")));
    }
    context.barrier();
  });
}

TEST(Checkpointer, SecondOneOfAContextIsUsageError) {
  const TemporaryFolder folder;
  on_ranks(2, [&](Context& context) {
    {
      const Checkpointer first(context, folder.path() / "a", {});
      EXPECT_THAT([&] { const Checkpointer second(context, folder.path() / "b", {}); },
                  ThrowsMessage<UsageError>(HasSubstr("the Context has another Checkpointer")));
    }
    const Checkpointer second(context, folder.path() / "b", {});
  });
}

TEST(Checkpointer, OptionsThatDifferAreMismatchError) {
  const TemporaryFolder folder;
  on_ranks(2, [&](Context& context) {
    EXPECT_THROW(Checkpointer(context, folder.path(), {.every = 10 + context.rank()}), MismatchError);
    EXPECT_THROW(Checkpointer(context, folder.path(), {.every = 0}), UsageError);
  });
}

TEST(Checkpointer, MistakesInUseAreUsageErrors) {
  const TemporaryFolder folder;
  on_ranks(1, [&](Context& context) {
    Program program(context, folder.path(), {});
    EXPECT_THROW(program.checkpoints.add("model", program.net), UsageError);
    EXPECT_THROW(program.checkpoints.add("rank-1", program.net), UsageError);
    EXPECT_THROW(program.checkpoints.add("a/b", program.net), UsageError);
    EXPECT_THROW(program.checkpoints.step(1), UsageError);
    (void)program.checkpoints.restore();
    EXPECT_THROW((void)program.checkpoints.restore(), UsageError);
  });
}

TEST(Checkpointer, SyncOffWritesNothing) {
  const TemporaryFolder folder;
  Config config;
  config.sync = false;
  auto contexts = Context::create_local(2, config);
  run_ranks(2, [&](int rank) {
    Program program(*contexts[static_cast<std::size_t>(rank)], folder.path() / "run", {.every = 1});
    EXPECT_EQ(program.checkpoints.restore(), 0);
    program.run(3);
    EXPECT_EQ(program.checkpoints.finish(), 0);
  });
  EXPECT_FALSE(fs::exists(folder.path() / "run"));
}

}  // namespace
}  // namespace kolo::test
