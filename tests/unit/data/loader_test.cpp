#include "kolo/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "kolo/error.h"
#include "loader_epoch.h"
#include "make_images.h"
#include "support/temporary_folder.h"

namespace kolo::data {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Loader, BatchesAreEqualForAnyNumberOfWorkers) {
  const auto dataset = jpegs(30);
  std::vector<std::int64_t> order = range(30);
  std::reverse(order.begin(), order.end());
  std::vector<Epoch> results;
  for (const int workers : {1, 2, 5}) {
    LoaderOptions options = small_options();
    options.workers = workers;
    options.prefetch = workers;
    Loader loader(dataset, options);
    run_epoch(loader, 0, order);
    results.push_back(run_epoch(loader, 1, order));
  }
  EXPECT_EQ(results[0].indices, order);
  EXPECT_THAT(results[0].counts, ElementsAre(4, 4, 4, 4, 4, 4, 4, 2));
  EXPECT_TRUE(results[0] == results[1]);
  EXPECT_TRUE(results[0] == results[2]);
}

TEST(Loader, ImagesDependOnEpochAndSeedAndRepeat) {
  const auto dataset = jpegs(8);
  LoaderOptions options = small_options();
  Loader loader(dataset, options);
  const Epoch zero = run_epoch(loader, 0, range(8));
  EXPECT_NE(zero.images, run_epoch(loader, 1, range(8)).images);
  EXPECT_TRUE(zero == run_epoch(loader, 0, range(8)));
  options.seed = 9;
  Loader other(dataset, options);
  EXPECT_NE(zero.images, run_epoch(other, 0, range(8)).images);
}

// A rank with half of the indices gets the same samples as one rank with all indices.
TEST(Loader, SampleDoesNotDependOnOtherIndicesOfRank) {
  const auto dataset = jpegs(8);
  Loader loader(dataset, small_options());
  const Epoch all = run_epoch(loader, 3, {0, 1, 2, 3, 4, 5, 6, 7});
  const Epoch odd = run_epoch(loader, 3, {1, 3, 5, 7});
  constexpr std::size_t kFloats = 16 * 16 * 3;
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(std::equal(odd.images.begin() + static_cast<std::ptrdiff_t>(i * kFloats),
                           odd.images.begin() + static_cast<std::ptrdiff_t>((i + 1) * kFloats),
                           all.images.begin() + static_cast<std::ptrdiff_t>((2 * i + 1) * kFloats)));
  }
}

TEST(Loader, EvaluationImagesAreEqualInEveryEpoch) {
  LoaderOptions options = small_options();
  options.transform.augment = Augment::eval;
  Loader loader(jpegs(8), options);
  EXPECT_TRUE(run_epoch(loader, 0, range(8)) == run_epoch(loader, 5, range(8)));
}

TEST(Loader, DropLastOmitsIncompleteBatchAndEmptyEpochEndsAtOnce) {
  LoaderOptions options = small_options();
  options.drop_last = true;
  Loader loader(jpegs(10), options);
  EXPECT_THROW((void)loader.next(), UsageError);
  EXPECT_THAT(run_epoch(loader, 0, range(10)).counts, ElementsAre(4, 4));
  EXPECT_EQ(loader.batches(), 2);
  EXPECT_TRUE(run_epoch(loader, 0, {}).counts.empty());
  EXPECT_TRUE(run_epoch(loader, 0, {1, 2}).counts.empty());
  EXPECT_EQ(loader.next(), nullptr) << "stays at its end";
}

TEST(Loader, BytesEqualRoundedFloats) {
  LoaderOptions options = small_options();
  TransformOptions& transform = options.transform;
  for (const Layout layout : {Layout::nhwc, Layout::nchw}) {
    for (const Augment augment : {Augment::train, Augment::eval}) {
      transform.layout = layout;
      transform.augment = augment;
      transform.pixels = PixelType::f32;
      Loader floats(jpegs(8), options);
      transform.pixels = PixelType::u8;
      Loader bytes(jpegs(8), options);
      const Epoch a = run_epoch(floats, 1, range(8));
      const Epoch b = run_epoch(bytes, 1, range(8));
      EXPECT_TRUE(b.images.empty());
      ASSERT_EQ(a.images.size(), b.bytes.size());
      for (std::size_t i = 0; i < b.bytes.size(); ++i) {
        const std::size_t c = layout == Layout::nhwc ? i % 3 : i / 256 % 3;
        const float grey = (a.images[i] * transform.deviation[c] + transform.mean[c]) * 255;
        ASSERT_NEAR(b.bytes[i], grey, 0.5005) << "number " << i;
      }
    }
  }
}

// Deviations apply to floats only: a program that takes bytes normalises them with its own numbers.
TEST(Loader, ZeroDeviationIsUsageErrorForFloatsOnly) {
  LoaderOptions options = small_options();
  options.transform.deviation = {1, 0, 1};
  EXPECT_THROW(Loader(jpegs(4), options), UsageError);
  options.transform.pixels = PixelType::u8;
  Loader loader(jpegs(4), options);
  EXPECT_EQ(run_epoch(loader, 0, range(4)).bytes.size(), 4U * 768);
}

// The weights of the resampler may add up to more than 1.
TEST(Loader, WhiteImageStaysWhiteInBytes) {
  const test::TemporaryFolder folder;
  test::Rgb white = test::smooth_image(57, 43);
  std::fill(white.bytes.begin(), white.bytes.end(), std::uint8_t{255});
  folder.write("a/white.png", test::encode_png(white));
  LoaderOptions options = small_options();
  options.transform.pixels = PixelType::u8;
  Loader loader(std::make_shared<ImageFolder>(folder.path()), options);
  for (int epoch = 0; epoch < 20; ++epoch) EXPECT_THAT(run_epoch(loader, epoch, {0}).bytes, Each(255));
}

TEST(Loader, NhwcAndNchwHaveEqualPixels) {
  LoaderOptions options = small_options();
  const auto dataset = jpegs(4);
  Loader nhwc(dataset, options);
  options.transform.layout = Layout::nchw;
  Loader nchw(dataset, options);
  const Epoch a = run_epoch(nhwc, 0, range(4));
  const Epoch b = run_epoch(nchw, 0, range(4));
  for (std::size_t n = 0; n < 4; ++n) {
    for (std::size_t pixel = 0; pixel < 256; ++pixel) {
      for (std::size_t c = 0; c < 3; ++c) {
        ASSERT_EQ(a.images[n * 768 + pixel * 3 + c], b.images[n * 768 + c * 256 + pixel]);
      }
    }
  }
}

TEST(Loader, BuffersAreReusedAndHeldBatchIsUnchanged) {
  LoaderOptions options = small_options();
  options.prefetch = 1;
  Loader loader(jpegs(400), options);
  loader.start_epoch(0, range(400));
  std::set<const float*> buffers;
  std::shared_ptr<const Batch> held = loader.next();
  const std::vector<float> copy(held->images, held->images + 4 * 768);
  while (const auto batch = loader.next()) {
    EXPECT_NE(batch->images, held->images);
    buffers.insert(batch->images);
  }
  EXPECT_TRUE(std::equal(copy.begin(), copy.end(), held->images));
  EXPECT_LE(buffers.size(), 2U);
}

TEST(Loader, BatchOutlivesLoader) {
  std::shared_ptr<const Batch> batch;
  {
    Loader loader(jpegs(40), small_options());
    loader.start_epoch(0, range(40));
    batch = loader.next();
  }
  EXPECT_EQ(batch->count, 4);
  EXPECT_LT(std::abs(batch->images[4 * 768 - 1]), 5.0F);
}

TEST(Loader, HoldingAllBatchesIsTimeoutErrorThatNamesTheCause) {
  LoaderOptions options = small_options();
  options.prefetch = 1;
  options.timeout = 200ms;
  Loader loader(jpegs(400), options);
  loader.start_epoch(0, range(400));
  std::vector<std::shared_ptr<const Batch>> held;
  EXPECT_THAT(
      [&] {
        while (held.size() < 10) held.push_back(loader.next());
      },
      ThrowsMessage<TimeoutError>(HasSubstr("holds all 3 batches")));
  held.clear();
  EXPECT_NE(loader.next(), nullptr) << "goes on once they are back";
}

// A dataset that a test can block, or that throws.
class Troubled final : public Dataset {
 public:
  [[nodiscard]] std::int64_t size() const override { return 100; }
  [[nodiscard]] std::int64_t classes() const override { return 1; }
  std::span<const std::byte> bytes(std::int64_t index, std::vector<std::byte>&) const override {
    ++begun;
    std::unique_lock lock(mutex);
    changed.wait_for(lock, 60s, [&] { return !blocked; });
    if (index == bad_index) throw std::logic_error("a bug in the dataset");
    return std::as_bytes(std::span(file));
  }
  [[nodiscard]] std::int64_t label(std::int64_t) const override { return 0; }
  [[nodiscard]] std::string name(std::int64_t index) const override { return std::to_string(index); }

  void set_blocked(bool value) {
    const std::lock_guard lock(mutex);
    blocked = value;
    changed.notify_all();
  }

  const std::string file = test::encode(test::smooth_image(20, 20));
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  mutable std::atomic<int> begun{0};
  bool blocked = false;
  std::int64_t bad_index = -1;
};

TEST(Loader, ExceptionOfWorkerIsThrownForItsBatchOnly) {
  const auto dataset = std::make_shared<Troubled>();
  dataset->bad_index = 6;
  Loader loader(dataset, small_options());
  loader.start_epoch(0, range(12));
  EXPECT_EQ(loader.next()->number, 0);
  EXPECT_THAT([&] { (void)loader.next(); }, ThrowsMessage<std::logic_error>(HasSubstr("a bug in the dataset")));
  EXPECT_EQ(loader.next()->number, 2);
  EXPECT_EQ(loader.next(), nullptr);
}

TEST(Loader, BlockedDatasetIsTimeoutError) {
  const auto dataset = std::make_shared<Troubled>();
  dataset->set_blocked(true);
  LoaderOptions options = small_options();
  options.timeout = 100ms;
  Loader loader(dataset, options);
  loader.start_epoch(0, range(12));
  EXPECT_THAT([&] { (void)loader.next(); }, ThrowsMessage<TimeoutError>(HasSubstr("batch 0 is not ready")));
  dataset->set_blocked(false);
}

TEST(Loader, CanBeDestroyedWhileWorkersAreBusy) {
  for (int round = 0; round < 20; ++round) {
    Loader loader(jpegs(1000), small_options());
    loader.start_epoch(0, range(1000));
    if (round % 2 == 0) (void)loader.next();
  }
}

TEST(Loader, CanBeDestroyedWhileWorkersAreBlocked) {
  const auto dataset = std::make_shared<Troubled>();
  dataset->set_blocked(true);
  {
    Loader loader(dataset, small_options());
    loader.start_epoch(0, range(12));
    while (dataset->begun < 2) std::this_thread::yield();
  }  // ten seconds
  dataset->set_blocked(false);
  while (dataset.use_count() > 1) std::this_thread::yield();  // the workers that were left behind end by themselves
}

TEST(Loader, NewEpochDropsBatchesOfOldEpoch) {
  const auto dataset = jpegs(100);
  Loader loader(dataset, small_options());
  Loader fresh(dataset, small_options());
  const Epoch expected = run_epoch(fresh, 7, range(9));
  for (int round = 0; round < 50; ++round) {
    loader.start_epoch(round, range(100));
    for (int i = 0; i < round % 4; ++i) (void)loader.next();
    ASSERT_TRUE(run_epoch(loader, 7, range(9)) == expected);
  }
}

TEST(Loader, InvalidOptionsAreUsageError) {
  const auto expect_refused = [](auto change) {
    LoaderOptions options = small_options();
    change(options);
    EXPECT_THROW(Loader(jpegs(4), options), UsageError);
  };
  expect_refused([](LoaderOptions& o) { o.batch_size = 0; });
  expect_refused([](LoaderOptions& o) { o.workers = 0; });
  expect_refused([](LoaderOptions& o) { o.prefetch = 0; });
  expect_refused([](LoaderOptions& o) { o.transform.image_size = 0; });
  expect_refused([](LoaderOptions& o) { o.transform.min_area = 0; });
  expect_refused([](LoaderOptions& o) { o.transform.max_aspect = 0.1; });
  EXPECT_THROW(Loader(nullptr, small_options()), UsageError);
  Loader loader(jpegs(4), small_options());
  EXPECT_THAT([&] { loader.start_epoch(0, {0, 4}); }, ThrowsMessage<UsageError>(HasSubstr("index 4")));
  EXPECT_THROW(loader.start_epoch(0, {-1}), UsageError);
}

}  // namespace
}  // namespace kolo::data
