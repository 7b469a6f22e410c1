// Files that cannot be decoded or must be converted: how the loader replaces and reports them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>

#include "kolo/error.h"
#include "loader_epoch.h"
#include "make_images.h"
#include "support/temporary_folder.h"

namespace kolo::data {
namespace {

using test::JpegKind;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// A folder with one file of each damaged or converted kind between good files.
class DamagedFiles : public ::testing::Test {
 protected:
  DamagedFiles() {
    const test::Rgb image = test::smooth_image(60, 44);
    const std::string good = test::encode(image);
    folder_.write("a/0_good.JPEG", good);
    folder_.write("a/1_empty.JPEG", "");
    folder_.write("a/2_text.JPEG", "this is no picture\n");
    folder_.write("a/3_truncated.JPEG", good.substr(0, good.size() / 2));
    folder_.write("a/4_cmyk.JPEG", test::encode(image, JpegKind::cmyk));
    folder_.write("a/5_ycck.JPEG", test::encode(image, JpegKind::ycck));
    folder_.write("b/6_grey.JPEG", test::encode(image, JpegKind::grey));
    folder_.write("b/7_png.JPEG", test::encode_png(image));
    folder_.write("b/8_header_only.JPEG", good.substr(0, 20));
    folder_.write("b/9_webp.JPEG", std::string("RIFF\x24\0\0\0WEBPVP8 ", 16) + good);
    dataset_ = std::make_shared<ImageFolder>(folder_.path());
  }
  test::TemporaryFolder folder_;
  std::shared_ptr<const Dataset> dataset_;
};

std::vector<std::string> names(const std::vector<OddFile>& files) {
  std::vector<std::string> result;
  for (const OddFile& file : files) result.push_back(file.name);
  return result;
}

std::vector<std::int64_t> at(const std::vector<std::int64_t>& values, const std::vector<std::size_t>& places) {
  std::vector<std::int64_t> result;
  for (const std::size_t place : places) result.push_back(values[place]);
  return result;
}

TEST_F(DamagedFiles, AreReplacedByRandomReadableFileOfTheirClass) {
  std::optional<Epoch> first;
  for (const int workers : {1, 3}) {
    LoaderOptions options = small_options();
    options.workers = workers;
    Loader loader(dataset_, options);
    const Epoch epoch = run_epoch(loader, 0, range(dataset_->size()));
    EXPECT_THAT(at(epoch.indices, {0, 4, 5, 6, 7}), ElementsAre(0, 4, 5, 6, 7));
    EXPECT_THAT(at(epoch.indices, {1, 2, 3}), Each(AnyOf(0, 4, 5)));
    EXPECT_THAT(at(epoch.indices, {8, 9}), Each(AnyOf(6, 7)));
    EXPECT_THAT(epoch.labels, ElementsAre(0, 0, 0, 0, 0, 0, 1, 1, 1, 1));
    if (!first) first = epoch;
    EXPECT_TRUE(*first == epoch);
    const LoaderReport report = loader.report();
    EXPECT_THAT(names(report.broken), ElementsAre("a/1_empty.JPEG", "a/2_text.JPEG", "a/3_truncated.JPEG",
                                                  "b/8_header_only.JPEG", "b/9_webp.JPEG"));
    EXPECT_THAT(names(report.converted),
                ElementsAre("a/4_cmyk.JPEG", "a/5_ycck.JPEG", "b/6_grey.JPEG", "b/7_png.JPEG"));
    EXPECT_EQ(report.converted[0].what, "CMYK JPEG");
    EXPECT_THAT(report.broken[0].what, HasSubstr("empty"));
    EXPECT_EQ(report.decoded, 10);
    EXPECT_EQ(report.replaced, 5) << "samples, not attempts";
    EXPECT_EQ(report.skipped, 0);
  }
}

// The replacement does not depend on the order of samples or on other ranks.
TEST_F(DamagedFiles, ReplacementDependsOnSeedEpochAndIndex) {
  LoaderOptions options = small_options();
  Loader loader(dataset_, options);
  options.seed = 5;
  Loader other(dataset_, options);
  std::set<std::int64_t> replacements;
  bool seeds_differ = false;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    const Epoch all = run_epoch(loader, epoch, range(dataset_->size()));
    EXPECT_EQ(run_epoch(loader, epoch, {2}).images,
              (std::vector<float>(all.images.begin() + 2 * 768, all.images.begin() + 3 * 768)));
    replacements.insert(all.indices[2]);
    seeds_differ |= run_epoch(other, epoch, {2}).indices[0] != all.indices[2];
  }
  EXPECT_THAT(replacements, ElementsAre(0, 4, 5)) << "all readable ones of its class";
  EXPECT_TRUE(seeds_differ);
}

// As after a disk error. Each damaged image is replaced by its own draw.
TEST(Loader, AdjacentDamagedImagesAreReplacedByDifferentImages) {
  const test::TemporaryFolder folder;
  const std::string good = test::encode(test::smooth_image(20, 20));
  for (int i = 100; i < 160; ++i) folder.write("a/" + std::to_string(i) + ".JPEG", i < 140 ? "damaged" : good);
  Loader loader(std::make_shared<ImageFolder>(folder.path()), small_options());
  const Epoch epoch = run_epoch(loader, 0, range(60));
  std::map<std::int64_t, int> times;
  for (const std::int64_t index : epoch.indices) ++times[index];
  EXPECT_GT(times.size(), 15U) << "of 20 readable ones";
  for (const auto& [index, count] : times) EXPECT_LT(count, 12) << "image " << index << "; 3 is the mean";
}

TEST_F(DamagedFiles, EpochFilesCountDeliveredBatchesOnly) {
  LoaderOptions options = small_options();
  options.batch_size = 2;
  options.broken = BrokenSample::skip;
  Loader loader(dataset_, options);
  loader.start_epoch(0, range(dataset_->size()));
  EXPECT_EQ(loader.epoch_files().read, 0);
  (void)loader.next();  // 0 and 1
  EXPECT_EQ(loader.epoch_files().read, 2);
  EXPECT_THAT(names(loader.epoch_files().broken), testing::Contains("a/1_empty.JPEG"));
  EXPECT_THAT(names(loader.epoch_files().broken), testing::Not(testing::Contains("b/9_webp.JPEG")));
  while (loader.next()) {
  }
  EXPECT_EQ(loader.epoch_files().read, 10);
  EXPECT_EQ(loader.epoch_files().broken.size(), 5U);
  run_epoch(loader, 1, {0, 4});
  EXPECT_EQ(loader.epoch_files().read, 2);
  EXPECT_TRUE(loader.epoch_files().broken.empty());
}

TEST_F(DamagedFiles, ReplacementsCountAsReadFiles) {
  Loader loader(dataset_, small_options());
  run_epoch(loader, 0, {0, 4, 5});
  EXPECT_EQ(loader.epoch_files().read, 3);
  run_epoch(loader, 1, range(dataset_->size()));
  EXPECT_GE(loader.epoch_files().read, 10 + 5);
  EXPECT_EQ(loader.epoch_files().broken.size(), 5U);
}

TEST_F(DamagedFiles, AreOmittedWithBrokenSampleSkip) {
  LoaderOptions options = small_options();
  options.transform.augment = Augment::eval;
  options.broken = BrokenSample::skip;
  Loader loader(dataset_, options);
  const Epoch epoch = run_epoch(loader, 0, range(dataset_->size()));
  EXPECT_THAT(epoch.indices, ElementsAre(0, 4, 5, 6, 7));
  EXPECT_THAT(epoch.counts, ElementsAre(1, 4, 0));
  EXPECT_EQ(loader.report().skipped, 5);
  const Epoch alone = run_epoch(loader, 0, {5});
  EXPECT_TRUE(std::equal(alone.images.begin(), alone.images.end(), epoch.images.begin() + 2 * 768))
      << "images move together with their labels";
}

TEST_F(DamagedFiles, BytesStayWithTheirLabelsAfterSkip) {
  LoaderOptions options = small_options();
  options.transform.augment = Augment::eval;
  options.transform.pixels = PixelType::u8;
  options.broken = BrokenSample::skip;
  Loader loader(dataset_, options);
  const Epoch epoch = run_epoch(loader, 0, range(dataset_->size()));
  const Epoch alone = run_epoch(loader, 0, {5});
  ASSERT_EQ(alone.bytes.size(), 768U);
  EXPECT_TRUE(std::equal(alone.bytes.begin(), alone.bytes.end(), epoch.bytes.begin() + 2 * 768));
}

TEST(Loader, ClassWithoutReadableImageIsErrorOfNext) {
  const test::TemporaryFolder folder;
  for (int i = 0; i < 5; ++i) folder.write("a/" + std::to_string(i) + ".JPEG", "nonsense");
  folder.write("b/good.JPEG", test::encode(test::smooth_image(20, 20)));
  Loader loader(std::make_shared<ImageFolder>(folder.path()), small_options());
  loader.start_epoch(0, range(5));
  EXPECT_THAT([&] { (void)loader.next(); },
              ThrowsMessage<BackendError>(AllOf(HasSubstr("no readable image in class a: 5 files tried"),
                                                HasSubstr(".JPEG (neither a JPEG nor a PNG)"))));
  EXPECT_THROW((void)loader.next(), BackendError);
  EXPECT_EQ(loader.next(), nullptr);
}

}  // namespace
}  // namespace kolo::data
