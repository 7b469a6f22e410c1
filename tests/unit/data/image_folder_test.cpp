#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "kolo/data/dataset.h"
#include "kolo/error.h"
#include "support/temporary_folder.h"

namespace kolo::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::string> names_of(const ImageFolder& images) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < images.size(); ++i) names.push_back(images.name(i));
  return names;
}

std::vector<std::int64_t> labels_of(const ImageFolder& images) {
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < images.size(); ++i) labels.push_back(images.label(i));
  return labels;
}

// The expected order was written by Python: sorted(os.walk(folder, followlinks=True)), and the names sorted.
TEST(ImageFolder, SubFoldersLinksAndExtensionsAreReadInTorchvisionsOrder) {
  const test::TemporaryFolder folder;
  const test::TemporaryFolder elsewhere;
  for (const char* name : {"b/2.JPEG", "b/10.Jpg", "b/sub/deep.JPEG", "b/sub-2/x.pNg", "b/sub/deeper/y.jpg",
                           "b/sub.JPEG/z.jpg", "a/z.png", "a/m.jpg", "a/n.jpeg", "a/notes.txt", "a/jpg", "a/x.jpg.bak",
                           "top.JPEG", "a/._m.jpg", "a/.jpg", "a/.ipynb_checkpoints/m.jpg", ".git/x.JPEG"}) {
    folder.write(name, name);
  }
  elsewhere.write("k/e.jpeg", "c/e.jpeg");
  elsewhere.write("f", "a/link.PNG");
  std::filesystem::create_symlink(elsewhere.path() / "k", folder.path() / "c");
  std::filesystem::create_symlink(elsewhere.path() / "k", folder.path() / "b" / "linked");
  std::filesystem::create_symlink(elsewhere.path() / "f", folder.path() / "a" / "link.PNG");
  std::filesystem::create_symlink("/nowhere/at/all", folder.path() / "a" / "dangling.jpg");
  const ImageFolder images(folder.path());
  EXPECT_THAT(images.class_names(), ElementsAre("a", "b", "c"));
  EXPECT_THAT(names_of(images), ElementsAre("a/dangling.jpg", "a/link.PNG", "a/m.jpg", "a/n.jpeg", "a/z.png",
                                            "b/10.Jpg", "b/2.JPEG", "b/linked/e.jpeg", "b/sub/deep.JPEG",
                                            "b/sub-2/x.pNg", "b/sub.JPEG/z.jpg", "b/sub/deeper/y.jpg", "c/e.jpeg"));
  EXPECT_THAT(labels_of(images), ElementsAre(0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2));
  EXPECT_EQ(images.listing().ignored, 4) << "notes.txt, jpg, x.jpg.bak, top.JPEG";
  std::vector<std::byte> scratch;
  for (const std::int64_t i : {1, 5, 8, 12}) {
    const auto bytes = images.bytes(i, scratch);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), images.name(i));
  }
  EXPECT_THAT([&] { images.bytes(0, scratch); }, ThrowsMessage<BackendError>(HasSubstr("a/dangling.jpg")));
}

TEST(ImageFolder, EmptyClassIsReportedAndKeepsItsLabel) {
  const test::TemporaryFolder folder;
  for (const char* name : {"a/1.jpg", "b/readme.txt", "c/1.jpg"}) folder.write(name, name);
  const ImageFolder images(folder.path());
  EXPECT_EQ(images.classes(), 3);
  EXPECT_THAT(labels_of(images), ElementsAre(0, 2));
  EXPECT_EQ(images.class_name(2), "c");
  EXPECT_THAT(images.listing().empty_classes, ElementsAre("b"));
  EXPECT_THAT(describe(images.listing(), "train"),
              ElementsAre("warning: train: classes without a JPEG or PNG file: 1 (b)",
                          "train: 1 file ignored: no image extension, not a regular file, or outside the class "
                          "folders"));
}

TEST(ImageFolder, UnsupportedFormatsBeyondOnePercentOfClassAreError) {
  const test::TemporaryFolder folder;
  for (int i = 0; i < 198; ++i) folder.write("a/" + std::to_string(i) + ".jpg", "x");
  folder.write("a/x.WebP", "x");
  folder.write("a/y.bmp", "x");
  const ImageFolder images(folder.path());
  EXPECT_EQ(images.size(), 198);
  EXPECT_THAT(images.listing().unsupported, ElementsAre(std::pair(".bmp", 1), std::pair(".webp", 1)));
  EXPECT_THAT(describe(images.listing(), "train"),
              ElementsAre("warning: train: image files in a format that kolo cannot decode are not used: 1 .bmp, 1 "
                          ".webp"));
  for (const char* name : {"a/z.tif", "a/z.TIFF", "a/z.ppm", "a/z.pgm"}) {
    const auto third = folder.write(name, "x");
    EXPECT_THAT([&] { ImageFolder{folder.path()}; },
                ThrowsMessage<UsageError>(AllOf(HasSubstr(folder.path() / "a"), HasSubstr("3 of 201 image files"))))
        << name;
    std::filesystem::remove(third);
  }
}

TEST(ImageFolder, UnsupportedFormatsOfOneClassAreErrorRegardlessOfOthers) {
  const test::TemporaryFolder folder;
  for (int i = 0; i < 200; ++i) folder.write("a/" + std::to_string(i) + ".jpg", "x");
  folder.write("b/1.jpg", "x");
  folder.write("b/2.webp", "x");
  EXPECT_THAT([&] { ImageFolder{folder.path()}; }, ThrowsMessage<UsageError>(HasSubstr("1 of 2 image files")));
}

TEST(ImageFolder, FifoIsNeitherListedNorOpened) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("a/1.jpg", "x");
  const auto fifo = folder.path() / "a" / "2.jpg";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::filesystem::create_symlink(fifo, folder.path() / "a" / "3.jpg");
  const ImageFolder images(folder.path());
  EXPECT_THAT(names_of(images), ElementsAre("a/1.jpg"));
  EXPECT_EQ(images.listing().ignored, 2);
  // A file that becomes a FIFO after the listing.
  std::filesystem::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  std::vector<std::byte> scratch;
  EXPECT_THAT([&] { images.bytes(0, scratch); }, ThrowsMessage<BackendError>(HasSubstr("not a regular file")));
}

TEST(ImageFolder, LinkToParentFolderIsErrorThatNamesIt) {
  const test::TemporaryFolder folder;
  folder.write("a/sub/1.jpg", "x");
  std::filesystem::create_symlink(folder.path() / "a", folder.path() / "a" / "sub" / "back");
  EXPECT_THAT([&] { ImageFolder{folder.path()}; },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("a/sub/back"), HasSubstr("leads back to a parent folder"))));
}

TEST(ImageFolder, DanglingClassLinkIsErrorThatNamesIt) {
  const test::TemporaryFolder folder;
  folder.write("a/1.jpg", "x");
  std::filesystem::create_symlink("/not/mounted/b", folder.path() / "b");
  EXPECT_THAT([&] { ImageFolder{folder.path()}; },
              ThrowsMessage<UsageError>(HasSubstr((folder.path() / "b").string())));
}

TEST(ImageFolder, FileLargerThanTwoGiBIsError) {
  const test::TemporaryFolder folder;
  std::filesystem::resize_file(folder.write("a/1.jpg", "x"), (std::uintmax_t{1} << 31) + 1);  // sparse
  const ImageFolder images(folder.path());
  std::vector<std::byte> scratch;
  EXPECT_THAT([&] { images.bytes(0, scratch); }, ThrowsMessage<BackendError>(HasSubstr("larger than 2 GiB")));
  EXPECT_TRUE(scratch.empty());
}

TEST(ImageFolder, GivenClassesDecideLabelsAndOrder) {
  const test::TemporaryFolder folder;
  for (const char* name : {"a/1.jpg", "c/1.jpg", "b/1.jpg"}) folder.write(name, name);
  const ImageFolder images(folder.path(), {"c", "a", "b"});
  EXPECT_THAT(names_of(images), ElementsAre("c/1.jpg", "a/1.jpg", "b/1.jpg"));
  EXPECT_THAT(labels_of(images), ElementsAre(0, 1, 2));
}

TEST(ImageFolder, MissingAndAdditionalClassesAreNamed) {
  const test::TemporaryFolder folder;
  for (const char* name : {"a/1.jpg", "c/1.jpg"}) folder.write(name, name);
  const auto complaint = [&](const std::vector<std::string>& classes) {
    try {
      ImageFolder(folder.path(), classes);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_THAT(complaint({"a", "b", "c"}), HasSubstr("must have the 3 training classes, but lacks 1 (b)"));
  EXPECT_THAT(complaint({"a"}), HasSubstr("but has others: 1 (c)"));
  EXPECT_THAT(complaint({"a", "b"}), HasSubstr("but lacks 1 (b) and has others: 1 (c)"));
  EXPECT_THAT(complaint({"a", "c", "p", "q", "r", "s", "t", "u"}), HasSubstr("lacks 6 (p, q, r, s, t, ...)"));
  EXPECT_EQ(complaint({"a", "c"}), "none");
}

TEST(ImageFolder, MissingFolderClassesOrImagesAreNamedInError) {
  const test::TemporaryFolder folder;
  EXPECT_THAT([] { ImageFolder("/nowhere"); }, ThrowsMessage<UsageError>(HasSubstr("/nowhere")));
  EXPECT_THAT([&] { ImageFolder{folder.path()}; }, ThrowsMessage<UsageError>(HasSubstr("no class folders")));
  folder.write("class/readme.txt", "x");
  EXPECT_THAT([&] { ImageFolder{folder.path()}; }, ThrowsMessage<UsageError>(HasSubstr("no .JPEG")));
}

TEST(ImageFolder, FileRemovedAfterListingIsErrorThatNamesIt) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("class/a.JPEG", "x");
  const ImageFolder images(folder.path());
  std::filesystem::remove(file);
  std::vector<std::byte> scratch;
  EXPECT_THAT([&] { images.bytes(0, scratch); },
              ThrowsMessage<BackendError>(::testing::AllOf(HasSubstr("class/a.JPEG"), HasSubstr("No such file"))));
}

TEST(SyntheticJpegs, RepeatsDistinctImagesWithStableLabels) {
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
