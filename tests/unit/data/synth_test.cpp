#include "kolo/data/synth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "data/synth_pattern.h"
#include "kolo/data/dataset.h"
#include "kolo/error.h"
#include "make_images.h"
#include "support/temporary_folder.h"

namespace kolo::data {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr SynthOptions kSmall{.classes = 3, .images = 10, .val_images = 4, .image_size = 24, .seed = 5, .threads = 2};

std::map<std::string, std::string> contents(const fs::path& root) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files[fs::relative(entry.path(), root).string()] = {std::istreambuf_iterator<char>(file), {}};
  }
  return files;
}

TEST(Synth, WritesImageFolderOfRequestedSize) {
  const test::TemporaryFolder folder;
  std::int64_t last = 0;
  EXPECT_TRUE(write_synthetic_folder(folder.path() / "set", kSmall, [&](std::int64_t done, std::int64_t total) {
    EXPECT_EQ(done, last + 1);
    EXPECT_EQ(total, 14);
    last = done;
  }));
  EXPECT_EQ(last, 14);
  const ImageFolder train(folder.path() / "set" / "train");
  const ImageFolder val(folder.path() / "set" / "val");
  EXPECT_EQ(train.size(), 10);
  EXPECT_EQ(val.size(), 4);
  EXPECT_EQ(train.classes(), 3);
  EXPECT_EQ(train.class_names(), val.class_names());
  std::vector<std::byte> scratch;
  for (std::int64_t i = 0; i < train.size(); ++i) {
    const auto bytes = train.bytes(i, scratch);
    const test::Rgb image = test::decode_whole({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    EXPECT_EQ(std::min(image.width, image.height), 24);
    EXPECT_LE(std::max(image.width, image.height), 32);
  }
}

TEST(Synth, DependsOnSeedAndNotOnThreadCount) {
  const test::TemporaryFolder folder;
  SynthOptions options = kSmall;
  write_synthetic_folder(folder.path() / "a", options);
  options.threads = 5;
  write_synthetic_folder(folder.path() / "b", options);
  options.seed = 6;
  write_synthetic_folder(folder.path() / "c", options);
  EXPECT_EQ(contents(folder.path() / "a"), contents(folder.path() / "b"));
  EXPECT_NE(contents(folder.path() / "a"), contents(folder.path() / "c"));
}

TEST(Synth, CompleteFolderIsKeptAndInterruptedFolderIsCompleted) {
  const test::TemporaryFolder folder;
  const fs::path root = folder.path() / "set";
  write_synthetic_folder(root, kSmall);
  const auto before = contents(root);
  EXPECT_FALSE(write_synthetic_folder(root, kSmall));

  std::string marker = before.at(".kolo-synth.json");
  marker.replace(marker.find("\"complete\":true"), 15, "\"complete\":false");
  folder.write("set/.kolo-synth.json", marker);
  fs::remove(root / "train" / "class_0001" / "class_0001_00000004.JPEG");
  EXPECT_TRUE(write_synthetic_folder(root, kSmall));
  EXPECT_EQ(contents(root), before);
}

TEST(Synth, FolderWithOtherFilesOrOptionsIsUsageError) {
  const test::TemporaryFolder folder;
  folder.write("photos/holiday.jpg", "dear to somebody");
  EXPECT_THAT([&] { write_synthetic_folder(folder.path() / "photos", kSmall); },
              ThrowsMessage<UsageError>(HasSubstr("did not create")));
  write_synthetic_folder(folder.path() / "set", kSmall);
  SynthOptions other = kSmall;
  other.images = 11;
  EXPECT_THAT([&] { write_synthetic_folder(folder.path() / "set", other); },
              ThrowsMessage<UsageError>(HasSubstr("other options")));
}

TEST(Synth, InvalidOptionsAreUsageError) {
  for (const SynthOptions& bad : {SynthOptions{.classes = 0}, SynthOptions{.classes = 10, .images = 9},
                                  SynthOptions{.val_images = -1}, SynthOptions{.image_size = 1}}) {
    EXPECT_THROW(write_synthetic_folder("/nowhere/set", bad), UsageError);
  }
  EXPECT_THROW(write_synthetic_folder("/proc/nowhere/set", kSmall), BackendError);
}

// A network can learn the classes: the mean colour of an image predicts its class far above chance.
TEST(Synth, MeanColourDistinguishesClasses) {
  constexpr int kClasses = 10;
  constexpr int kEach = 12;
  const auto mean_colour = [](std::int64_t label, std::uint64_t number) {
    const auto rgb = draw_pattern({label, 32, 32, 0, number});
    std::array<double, 3> mean{};
    for (std::size_t i = 0; i < rgb.size(); ++i) mean[i % 3] += rgb[i] * 3.0 / static_cast<double>(rgb.size());
    return mean;
  };
  std::array<std::array<double, 3>, kClasses> centres{};
  for (int label = 0; label < kClasses; ++label) {
    for (std::uint64_t n = 0; n < kEach; ++n) {
      const auto mean = mean_colour(label, n);
      for (std::size_t c = 0; c < 3; ++c) centres[static_cast<std::size_t>(label)][c] += mean[c] / kEach;
    }
  }
  int right = 0;
  for (int label = 0; label < kClasses; ++label) {
    for (std::uint64_t n = 100; n < 100 + kEach; ++n) {
      const auto mean = mean_colour(label, n);
      const auto distance = [&](const auto& centre) {
        double sum = 0;
        for (std::size_t c = 0; c < 3; ++c) sum += (mean[c] - centre[c]) * (mean[c] - centre[c]);
        return sum;
      };
      const auto best = std::min_element(centres.begin(), centres.end(),
                                         [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
      right += best - centres.begin() == label ? 1 : 0;
    }
  }
  EXPECT_GT(right, kClasses * kEach * 4 / 10) << "of " << kClasses * kEach << "; chance is a tenth";
}

}  // namespace
}  // namespace kolo::data
