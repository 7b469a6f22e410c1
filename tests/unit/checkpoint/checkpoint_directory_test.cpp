#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "kolo/checkpoint.h"
#include "kolo/error.h"
#include "support/temporary_folder.h"

namespace kolo::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string text_of(const fs::path& file) {
  const auto content = read_file(file);
  return {reinterpret_cast<const char*>(content.data()), content.size()};
}

fs::path save(CheckpointDirectory& directory, std::int64_t step, const std::string& text) {
  return directory.save({step, step / 10, {{"arch", "resnet50"}}}, [&](const fs::path& folder) {
    write_file(folder / "model.safetensors", text);
    write_file(folder / "optimizer.safetensors", "optimizer of " + text);
  });
}

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

// Runs a save in a child process that is killed by SIGKILL from inside `write`.
template <typename Write>
void save_and_die(const fs::path& root, std::int64_t step, Write write) {
  const pid_t child = ::fork();
  if (child == 0) {
    CheckpointDirectory(root).save({step, 0, {}}, write);
    ::_exit(0);  // not reached
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
}

TEST(WriteFile, ReplacesFileAndLeavesNoTemporaryFile) {
  const test::TemporaryFolder folder;
  write_file(folder.path() / "a", std::string_view("first, longer"));
  write_file(folder.path() / "a", std::string_view("second"));
  EXPECT_EQ(text_of(folder.path() / "a"), "second");
  EXPECT_EQ(entries(folder.path()), 1U);
}

TEST(WriteFile, ErrorNamesPathAndReasonAndLeavesNoTemporaryFile) {
  EXPECT_THAT([] { write_file("/nowhere/at/all", std::string_view("x")); },
              ThrowsMessage<BackendError>(::testing::AllOf(HasSubstr("/nowhere/at"), HasSubstr("No such file"))));
  const test::TemporaryFolder folder;
  fs::create_directory(folder.path() / "taken");
  EXPECT_THROW(write_file(folder.path() / "taken", std::string_view("x")), BackendError);
  EXPECT_EQ(entries(folder.path()), 1U) << "the temporary file is gone";
}

TEST(CheckpointDirectory, LatestIsTheLastSavedCheckpoint) {
  const test::TemporaryFolder folder;
  CheckpointDirectory directory(folder.path() / "deep" / "root");
  EXPECT_FALSE(directory.latest().has_value());
  save(directory, 100, "hundred");
  const fs::path newest = save(directory, 2000, "two thousand");
  const auto found = directory.latest();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->folder, newest);
  EXPECT_EQ(found->info.step, 2000);
  EXPECT_EQ(found->info.epoch, 200);
  EXPECT_EQ(found->info.metadata.at("arch"), "resnet50");
  EXPECT_EQ(text_of(found->folder / "model.safetensors"), "two thousand");
  EXPECT_EQ(directory.list().size(), 2U);
}

TEST(CheckpointDirectory, KeepsHighestStepsAndTheLastSaved) {
  const test::TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), {2});
  for (const std::int64_t step : {10, 20, 30, 40}) save(directory, step, "x");
  ASSERT_EQ(directory.list().size(), 2U);
  EXPECT_EQ(directory.list()[0].info.step, 30);
  save(directory, 5, "an earlier step, after going back");
  ASSERT_EQ(directory.list().size(), 2U);
  EXPECT_EQ(directory.list()[0].info.step, 5) << "what was just saved is never removed";
  EXPECT_EQ(directory.list()[1].info.step, 40);
  EXPECT_EQ(entries(folder.path()), 2U);
}

std::vector<std::int64_t> steps_of(const CheckpointDirectory& directory) {
  std::vector<std::int64_t> steps;
  for (const Checkpoint& one : directory.list()) steps.push_back(one.info.step);
  return steps;
}

TEST(CheckpointDirectory, NewestFiniteCheckpointIsNeverRemoved) {
  const test::TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), {2});
  const auto save_one = [&](std::int64_t step, bool finite) {
    directory.save({step, 0, {}, finite}, [](const fs::path& path) { write_file(path / "a", std::string_view("x")); });
  };
  save_one(10, true);
  save_one(20, true);
  for (const std::int64_t step : {30, 40, 50, 60}) save_one(step, false);
  EXPECT_THAT(steps_of(directory), ::testing::ElementsAre(20, 50, 60));
  EXPECT_TRUE(directory.list()[0].info.finite);
  EXPECT_FALSE(directory.latest()->info.finite);
  save_one(70, true);
  EXPECT_THAT(steps_of(directory), ::testing::ElementsAre(60, 70)) << "the newest finite one is another now";
}

TEST(CheckpointDirectory, KeepOneKeepsNewestFiniteCheckpointToo) {
  const test::TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), {1});
  const auto write = [](const fs::path& path) { write_file(path / "a", std::string_view("x")); };
  directory.save({1, 0, {}, true}, write);
  directory.save({2, 0, {}, false}, write);
  directory.save({3, 0, {}, false}, write);
  EXPECT_THAT(steps_of(directory), ::testing::ElementsAre(1, 3));
}

// Only an immutable file stops root. Returns false if the file system has no such flag.
bool set_immutable(const fs::path& file, bool immutable) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  int flags = 0;
  bool done = fd >= 0 && ::ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0;
  flags = immutable ? flags | FS_IMMUTABLE_FL : flags & ~FS_IMMUTABLE_FL;
  done = done && ::ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0;
  ::close(fd);
  return done;
}

TEST(CheckpointDirectory, SaveSucceedsIfOldCheckpointCannotBeRemoved) {
  const test::TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), {.keep = 1});
  const fs::path kept = save(directory, 1, "one") / "model.safetensors";
  if (!set_immutable(kept, true)) GTEST_SKIP() << "no immutable files here";
  EXPECT_NO_THROW(save(directory, 2, "two"));
  EXPECT_NO_THROW(save(directory, 3, "three"));
  EXPECT_EQ(directory.list().size(), 1U);
  EXPECT_EQ(directory.latest()->info.step, 3);
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    if (entry.path().filename() == "model.safetensors") set_immutable(entry.path(), false);
  }
}

TEST(CheckpointDirectory, DifferencesNameBothValues) {
  const Metadata saved = {{"epochs", "90"}, {"lr", "0.1"}, {"seed", "1"}};
  EXPECT_THAT(CheckpointDirectory::differences(saved, {{"epochs", "30"}, {"lr", "0.1"}, {"momentum", "0.9"}}),
              ::testing::ElementsAre("epochs: 90 in the checkpoint, 30 in this run"));
  EXPECT_THAT(CheckpointDirectory::differences(saved, saved), ::testing::IsEmpty());
}

// Reads until `done`; returns how often latest() found nothing, skipped a checkpoint or went back in steps.
std::size_t count_disappointments(const fs::path& root, const std::atomic<bool>& done) {
  const CheckpointDirectory reader(root, {1});
  std::size_t count = 0;
  for (std::int64_t last = 0; !done;) {
    std::vector<std::string> skipped;
    const auto found = reader.latest(&skipped);
    if (!found || !skipped.empty() || found->info.step < last) ++count;
    if (found) last = found->info.step;
  }
  return count;
}

// With many small files, a listed checkpoint is often removed before all of its files are read.
TEST(CheckpointDirectory, ReadersFindLatestWhileWriterKeepsOne) {
  const test::TemporaryFolder folder;
  CheckpointDirectory writer(folder.path(), {1});
  const auto save_many = [&](std::int64_t step) {
    writer.save({step, 0, {}}, [](const fs::path& path) {
      for (int i = 0; i < 30; ++i) write_file(path / std::to_string(i), std::string_view("x"));
    });
  };
  save_many(0);
  std::atomic<bool> done = false;
  std::atomic<std::size_t> disappointments = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] { disappointments += count_disappointments(folder.path(), done); });
  }
  for (std::int64_t step = 1; step <= 40; ++step) save_many(step);
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(disappointments, 0U);
  EXPECT_EQ(writer.latest()->info.step, 40);
}

// In each listing, the checkpoint looks as if it had just been removed.
TEST(CheckpointDirectory, DanglingLinkIsSkippedAndReported) {
  const test::TemporaryFolder folder;
  CheckpointDirectory directory(folder.path());
  save(directory, 1, "good");
  fs::create_symlink("nowhere", folder.path() / "checkpoint-000000000002");
  std::vector<std::string> skipped;
  EXPECT_EQ(directory.latest(&skipped)->info.step, 1);
  EXPECT_EQ(skipped.size(), 1U);
}

TEST(CheckpointDirectory, KeepZeroKeepsAll) {
  const test::TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), {0});
  for (std::int64_t step = 0; step < 7; ++step) save(directory, step, "x");
  EXPECT_EQ(directory.list().size(), 7U);
}

TEST(CheckpointDirectory, SavingSameStepReplacesCheckpoint) {
  const test::TemporaryFolder folder;
  CheckpointDirectory directory(folder.path());
  save(directory, 7, "old");
  save(directory, 7, "new");
  EXPECT_EQ(text_of(directory.latest()->folder / "model.safetensors"), "new");
  EXPECT_EQ(entries(folder.path()), 1U);
}

TEST(CheckpointDirectory, ExceptionOfWriterLeavesDirectoryUnchanged) {
  const test::TemporaryFolder folder;
  CheckpointDirectory directory(folder.path());
  save(directory, 1, "good");
  const auto fail = [&] {
    directory.save({2, 0, {}}, [](const fs::path& temporary) {
      write_file(temporary / "model", std::string_view("half"));
      throw std::runtime_error("out of ideas");
    });
  };
  EXPECT_THAT(fail, ThrowsMessage<std::runtime_error>(HasSubstr("out of ideas")));
  EXPECT_EQ(directory.latest()->info.step, 1);
  EXPECT_EQ(entries(folder.path()), 1U);
}

TEST(CheckpointDirectory, SubfolderManifestOrNegativeStepIsUsageError) {
  const test::TemporaryFolder folder;
  CheckpointDirectory directory(folder.path());
  EXPECT_THROW(directory.save({1, 0, {}}, [](const fs::path& path) { fs::create_directory(path / "sub"); }),
               UsageError);
  EXPECT_THROW(directory.save({1, 0, {}}, [](const fs::path& path) { write_file(path / "manifest.json", ""); }),
               UsageError);
  EXPECT_THROW(directory.save({-1, 0, {}}, [](const fs::path&) {}), UsageError);
  EXPECT_EQ(entries(folder.path()), 0U);
}

TEST(CheckpointDirectory, ProcessKilledDuringSaveLeavesOldCheckpoint) {
  const test::TemporaryFolder folder;
  CheckpointDirectory directory(folder.path());
  save(directory, 1, "good");
  save_and_die(folder.path(), 2, [](const fs::path& path) {
    write_file(path / "model.safetensors", std::string_view("new"));
    ::raise(SIGKILL);
  });
  save_and_die(folder.path(), 3, [](const fs::path&) { ::raise(SIGKILL); });
  EXPECT_GT(entries(folder.path()), 1U) << "the test did not do what it says";
  EXPECT_EQ(directory.latest()->info.step, 1);
  EXPECT_EQ(directory.list().size(), 1U);
  save(directory, 4, "after");
  EXPECT_EQ(directory.latest()->info.step, 4);
  EXPECT_EQ(entries(folder.path()), 2U) << "leftovers are removed by the next save";
}

TEST(CheckpointDirectory, TemporaryFolderOfKilledProcessIsIgnored) {
  const test::TemporaryFolder folder;
  CheckpointDirectory directory(folder.path());
  const fs::path complete = save(directory, 1, "good");
  fs::copy(complete, folder.path() / ".tmp-1-0", fs::copy_options::recursive);
  EXPECT_EQ(directory.list().size(), 1U);
  EXPECT_EQ(directory.latest()->folder, complete);
}

TEST(CheckpointDirectory, ManifestTruncatedAtAnyByteIsSkipped) {
  const test::TemporaryFolder folder;
  CheckpointDirectory directory(folder.path());
  save(directory, 1, "good");
  const fs::path damaged = save(directory, 2, "to be damaged");
  const std::string manifest = text_of(damaged / "manifest.json");
  for (std::size_t size = 0; size + 2 < manifest.size(); ++size) {  // without its last newline it is still whole
    fs::resize_file(damaged / "manifest.json", size);
    ASSERT_EQ(directory.latest()->info.step, 1) << size;
    write_file(damaged / "manifest.json", manifest);
  }
  EXPECT_EQ(directory.latest()->info.step, 2);
}

TEST(CheckpointDirectory, DamagedCheckpointIsSkippedAndNamedWithReason) {
  const test::TemporaryFolder folder;
  CheckpointDirectory directory(folder.path());
  save(directory, 1, "good");
  const fs::path victim = save(directory, 2, "to be damaged");
  const fs::path model = victim / "model.safetensors";
  const auto expect_skipped = [&](const char* reason) {
    std::vector<std::string> skipped;
    const auto found = directory.latest(&skipped);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->info.step, 1);
    ASSERT_EQ(skipped.size(), 1U);
    EXPECT_THAT(skipped[0], ::testing::AllOf(HasSubstr(victim.string()), HasSubstr(reason)));
  };
  const std::string whole = text_of(model);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    fs::resize_file(model, size);
    expect_skipped("bytes, but the manifest says");
    write_file(model, whole);
  }
  std::string flipped = whole;
  flipped[3] ^= 1;
  write_file(model, flipped);
  expect_skipped("does not match its checksum");
  fs::remove(model);
  expect_skipped("No such file");
  write_file(model, whole);
  std::string manifest = text_of(victim / "manifest.json");
  manifest.replace(manifest.find("\"step\": 2"), 9, "\"step\": 3");
  write_file(victim / "manifest.json", manifest);
  expect_skipped("its checksum does not match");
  fs::remove(victim / "manifest.json");
  expect_skipped("No such file");
}

}  // namespace
}  // namespace kolo::checkpoint
