// Checkpoints whose files several processes write, and which of the old ones stay.
#include <gmock/gmock.h>

#include "base/hash.h"
#include "checkpoint/manifest.h"
#include "kolo/checkpoint.h"
#include "kolo/error.h"
#include "support/temporary_folder.h"

namespace kolo::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<std::int64_t> steps_in(const CheckpointDirectory& directory) {
  std::vector<std::int64_t> steps;
  for (const Checkpoint& each : directory.list()) steps.push_back(each.info.step);
  return steps;
}

TEST(WrittenFile, HasSizeAndChecksumOfTheFile) {
  const test::TemporaryFolder folder;
  const std::string text(20 << 20, 'x');  // more than one piece
  const WrittenFile written = write_file(folder.path() / "a", text);
  EXPECT_EQ(written.name, "a");
  EXPECT_EQ(written.size, text.size());
  EXPECT_EQ(written.checksum, base::hash64(read_file(folder.path() / "a")));
}

TEST(CheckpointParts, FilesOfTwoWritersBecomeOneCheckpoint) {
  const test::TemporaryFolder root;
  CheckpointDirectory directory(root.path());
  CheckpointDirectory other(root.path());
  (void)directory.lock();
  const std::vector<WrittenFile> files = {
      write_file(other.create_part_folder("run-7") / "b", std::string_view("bb")),
      write_file(directory.create_part_folder("run-7") / "a", std::string_view("a"))};
  EXPECT_EQ(directory.latest(), std::nullopt);
  const fs::path folder = directory.commit({.step = 7, .metadata = {{"k", "v"}}}, "run-7", files);
  EXPECT_EQ(folder, directory.folder_of(7));
  const Checkpoint checkpoint = CheckpointDirectory::verify(folder);
  EXPECT_EQ(checkpoint.info.step, 7);
  EXPECT_GT(checkpoint.info.time, 1'600'000'000);
  ASSERT_EQ(checkpoint.files.size(), 2U);
  EXPECT_EQ(checkpoint.files[1].name, "b");
  EXPECT_EQ(CheckpointDirectory::read(folder, checkpoint.files[1]).size(), 2U);
}

TEST(CheckpointParts, CommitRefusesMissingAndTruncatedFiles) {
  const test::TemporaryFolder root;
  CheckpointDirectory directory(root.path());
  (void)directory.lock();
  const fs::path folder = directory.create_part_folder("x");
  const WrittenFile file = write_file(folder / "a", std::string_view("four"));
  fs::resize_file(folder / "a", 3);
  EXPECT_THAT([&] { (void)directory.commit({.step = 1}, "x", {{file}}); },
              ThrowsMessage<BackendError>(HasSubstr("has 3 bytes, but 4 were written")));
  fs::remove(folder / "a");
  EXPECT_THAT([&] { (void)directory.commit({.step = 1}, "x", {{file}}); },
              ThrowsMessage<BackendError>(HasSubstr("the same file system on all hosts?")));
  EXPECT_TRUE(directory.list().empty());
}

TEST(CheckpointParts, CommitWithoutLockAndBadIdsAreUsageErrors) {
  const test::TemporaryFolder root;
  CheckpointDirectory directory(root.path());
  EXPECT_THROW((void)directory.commit({.step = 1}, "x", {}), UsageError);
  for (const std::string id : {"", "a/b", "..", "a b"})
    EXPECT_THROW((void)directory.create_part_folder(id), UsageError);
}

TEST(CheckpointParts, DiscardAndTheNextLockRemoveWhatWasNotCommitted) {
  const test::TemporaryFolder root;
  {
    CheckpointDirectory directory(root.path());
    (void)directory.lock();
    const fs::path given_up = directory.create_part_folder("given-up");
    const fs::path left = directory.create_part_folder("left");
    directory.discard("given-up");
    EXPECT_FALSE(fs::exists(given_up));
    EXPECT_TRUE(fs::exists(left));
  }
  CheckpointDirectory next(root.path());
  (void)next.lock();
  EXPECT_EQ(std::distance(fs::directory_iterator(root.path()), fs::directory_iterator()), 1);  // the lock
}

// A checkpoint without files.
void put(const CheckpointDirectory& directory, std::int64_t step, std::int64_t time, bool finite = true) {
  const fs::path folder = directory.folder_of(step);
  fs::create_directories(folder);
  write_file(folder / kManifestName, to_json({{.step = step, .finite = finite, .time = time}, {}}));
}

TEST(Prune, KeepsTheHighestSteps) {
  const test::TemporaryFolder root;
  CheckpointDirectory directory(root.path(), {.keep = 2});
  for (const int step : {1, 2, 3, 4}) put(directory, step, 1000 + step);
  directory.prune(directory.folder_of(4));
  EXPECT_THAT(steps_in(directory), ElementsAre(3, 4));
}

TEST(Prune, KeepsTheNewestAlsoIfItsStepIsLower) {
  const test::TemporaryFolder root;
  CheckpointDirectory directory(root.path(), {.keep = 2});
  for (const int step : {1, 5, 6}) put(directory, step, 1000 + step);
  directory.prune(directory.folder_of(1));
  EXPECT_THAT(steps_in(directory), ElementsAre(1, 6));
}

TEST(Prune, KeepsTheLastFiniteOne) {
  const test::TemporaryFolder root;
  CheckpointDirectory directory(root.path(), {.keep = 1});
  put(directory, 1, 1001);
  put(directory, 2, 1002);
  put(directory, 3, 1003, false);
  put(directory, 4, 1004, false);
  directory.prune(directory.folder_of(4));
  EXPECT_THAT(steps_in(directory), ElementsAre(2, 4));
}

TEST(Prune, KeepsTheFirstOfEachPeriod) {
  const test::TemporaryFolder root;
  CheckpointDirectory directory(root.path(), {.keep = 1, .keep_one_per = std::chrono::seconds(100)});
  const std::vector<std::pair<int, int>> step_and_time = {{1, 110}, {2, 150}, {3, 199}, {4, 200}, {5, 420}, {6, 480}};
  for (const auto& [step, time] : step_and_time) put(directory, step, time);
  directory.prune(directory.folder_of(6));
  EXPECT_THAT(steps_in(directory), ElementsAre(1, 4, 5, 6));
}

TEST(SafetensorsIndex, NamesTheFileOfEachTensor) {
  const test::TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> files = {{"w", "m-1.safetensors"}, {"b", "m-2.safetensors"}};
  (void)write_safetensors_index(folder.path() / "i.json", files, 24);
  const auto content = read_file(folder.path() / "i.json");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(content.data()), content.size()), R"({
  "metadata": {
    "total_size": 24
  },
  "weight_map": {
    "b": "m-2.safetensors",
    "w": "m-1.safetensors"
  }
}
)");
}

}  // namespace
}  // namespace kolo::checkpoint
