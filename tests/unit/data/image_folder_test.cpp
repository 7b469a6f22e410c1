#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kolo/data/dataset.h"
#include "kolo/error.h"
#include "support/temporary_folder.h"

namespace kolo::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ImageFolder, SortsClassesAndFilesAndIgnoresTheRest) {
  const test::TemporaryFolder folder;
  for (const char* name : {"b/2.JPEG", "b/10.JPEG", "a/z.png", "a/m.jpg", "a/n.jpeg", "a/notes.txt", "a/.hidden",
                           "top.JPEG", ".git/x.JPEG", "b/sub/deep.JPEG"}) {
    folder.write(name, name);
  }
  std::filesystem::create_directory(folder.path() / "empty_class");
  const ImageFolder images(folder.path());
  EXPECT_THAT(images.class_names(), ElementsAre("a", "b", "empty_class"));
  EXPECT_EQ(images.classes(), 3);
  std::vector<std::string> names;
  std::vector<std::int64_t> labels;
  std::vector<std::byte> scratch;
  for (std::int64_t i = 0; i < images.size(); ++i) {
    names.push_back(images.name(i));
    labels.push_back(images.label(i));
    const auto bytes = images.bytes(i, scratch);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), names.back());
  }
  EXPECT_THAT(names, ElementsAre("a/m.jpg", "a/n.jpeg", "a/z.png", "b/10.JPEG", "b/2.JPEG"));
  EXPECT_THAT(labels, ElementsAre(0, 0, 0, 1, 1));
}

TEST(ImageFolder, SaysWhatIsMissing) {
  const test::TemporaryFolder folder;
  EXPECT_THAT([] { ImageFolder("/nowhere"); }, ThrowsMessage<UsageError>(HasSubstr("/nowhere")));
  EXPECT_THAT([&] { ImageFolder{folder.path()}; }, ThrowsMessage<UsageError>(HasSubstr("no folders")));
  folder.write("class/readme.txt", "x");
  EXPECT_THAT([&] { ImageFolder{folder.path()}; }, ThrowsMessage<UsageError>(HasSubstr("no .JPEG")));
}

TEST(ImageFolder, AFileThatVanishedIsABackendErrorNamingIt) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("class/a.JPEG", "x");
  const ImageFolder images(folder.path());
  std::filesystem::remove(file);
  std::vector<std::byte> scratch;
  EXPECT_THAT([&] { images.bytes(0, scratch); },
              ThrowsMessage<BackendError>(::testing::AllOf(HasSubstr("class/a.JPEG"), HasSubstr("No such file"))));
}

TEST(SyntheticJpegs, RepeatsAFewImagesUnderStableLabels) {
  const SyntheticJpegs images({.size = 100, .classes = 3, .width = 40, .height = 30, .distinct = 4});
  std::vector<std::byte> scratch;
  EXPECT_EQ(images.size(), 100);
  EXPECT_EQ(images.bytes(1, scratch).data(), images.bytes(5, scratch).data());
  EXPECT_NE(images.bytes(1, scratch).data(), images.bytes(2, scratch).data());
  EXPECT_EQ(images.label(1), images.label(5));
  for (std::int64_t i = 0; i < 100; ++i) EXPECT_LT(images.label(i), 3);
  EXPECT_THROW(SyntheticJpegs({.size = 0}), UsageError);
}

}  // namespace
}  // namespace kolo::data
