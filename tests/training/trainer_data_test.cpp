// The images of the ranks: equal data sets, each image once, and the collectives that compare them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <set>

#include "data.h"
#include "kolo/data/images.h"
#include "kolo/distributed_sampler.h"
#include "kolo/error.h"
#include "ranks.h"
#include "report.h"
#include "support/local_ranks.h"
#include "support/temporary_folder.h"

namespace imagenet {
namespace {

using kolo::test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;

// The text of the error that `body` ends with on each rank; "none".
std::vector<std::string> errors_of(int ranks, const std::function<void(kolo::Context&)>& body) {
  std::vector<std::string> errors(static_cast<std::size_t>(ranks), "none");
  kolo::test::on_ranks(ranks, [&](kolo::Context& context) {
    try {
      body(context);
    } catch (const kolo::Error& error) {
      errors[static_cast<std::size_t>(context.rank())] = error.what();
    }
  });
  return errors;
}

Options in_folder(const std::filesystem::path& folder) {
  Options options;
  options.data = folder;
  return options;
}

void write_images(const TemporaryFolder& folder) {
  for (const char* name : {"train/a/1.jpg", "train/a/2.jpg", "train/b/1.jpg", "val/a/1.jpg", "val/b/1.jpg"}) {
    folder.write(name, "x");
  }
}

// Rank 1's folder is changed by `change`; both ranks' errors must be equal, and this text.
std::string difference(const std::function<void(const TemporaryFolder&)>& change) {
  std::array<TemporaryFolder, 2> folders;
  for (const auto& folder : folders) write_images(folder);
  change(folders[1]);
  const auto errors = errors_of(2, [&](kolo::Context& context) {
    (void)open_datasets(context, in_folder(folders[static_cast<std::size_t>(context.rank())].path()));
  });
  EXPECT_EQ(errors[0], errors[1]);
  return errors[0];
}

TEST(Datasets, FirstDifferenceBetweenRanksIsNamedWithBothValues) {
  EXPECT_EQ(difference([](const TemporaryFolder&) {}), "none");
  EXPECT_THAT(
      difference([](const auto& folder) { std::filesystem::remove(folder.path() / "train/a/1.jpg"); }),
      AllOf(HasSubstr("train/ has 3 samples of 2 classes on rank 0, 2 samples of 2 classes on rank 1"),
            HasSubstr("sample 0 is 'a/1.jpg' of class 'a' on rank 0, sample 0 is 'a/2.jpg' of class 'a' on rank 1")));
  EXPECT_THAT(difference([](const auto& folder) { std::filesystem::remove(folder.path() / "train/b/1.jpg"); }),
              HasSubstr("sample 2 is 'b/1.jpg' of class 'b' on rank 0, no further class or sample on rank 1"));
  EXPECT_THAT(difference([](const auto& folder) { folder.write("train/b/2.jpg", "x"); }),
              HasSubstr("no further class or sample on rank 0, sample 3 is 'b/2.jpg' of class 'b' on rank 1"));
  EXPECT_THAT(difference([](const auto& folder) {
                std::filesystem::rename(folder.path() / "train/a/2.jpg", folder.path() / "train/a/3.jpg");
              }),
              HasSubstr("sample 1 is 'a/2.jpg' of class 'a' on rank 0, sample 1 is 'a/3.jpg' of class 'a' on rank 1"));
  EXPECT_THAT(difference([](const auto& folder) {
                for (const char* part : {"train", "val"}) {
                  std::filesystem::rename(folder.path() / part / "a", folder.path() / part / "z");
                }
              }),
              HasSubstr("class 0 is 'a' on rank 0, class 0 is 'b' on rank 1"));
  EXPECT_THAT(difference([](const auto& folder) {
                std::filesystem::rename(folder.path() / "train/a", folder.path() / "train/z");
              }),
              HasSubstr("class 0 is 'a' on rank 0, class 0 is 'b' on rank 1"))
      << "before val/ is compared with train/";
  EXPECT_THAT(difference([](const auto& folder) { folder.write("val/b/2.jpg", "x"); }), HasSubstr("val/ has "));
  EXPECT_THAT(difference([](const auto& folder) { std::filesystem::remove_all(folder.path() / "val"); }),
              HasSubstr("val/ has 2 samples of 2 classes on rank 0, none on rank 1"));
}

TEST(Datasets, FolderThatOneRankCannotOpenIsErrorOnAllRanks) {
  EXPECT_THAT(difference([](const auto& folder) { std::filesystem::remove_all(folder.path() / "train"); }),
              AllOf(testing::StartsWith("rank 1: "), HasSubstr("/train"), HasSubstr("No such file")));
  EXPECT_THAT(difference([](const auto& folder) {
                std::filesystem::remove_all(folder.path() / "val");
                folder.write("val", "no folder");
              }),
              AllOf(testing::StartsWith("rank 1: "), HasSubstr("/val")));
}

TEST(Datasets, ValidationClassesOtherThanTrainingClassesAreError) {
  const auto complaint = [](const std::function<void(const TemporaryFolder&)>& change) {
    const TemporaryFolder folder;
    write_images(folder);
    change(folder);
    return errors_of(1, [&](auto& context) { (void)open_datasets(context, in_folder(folder.path())); }).front();
  };
  EXPECT_THAT(complaint([](const auto& folder) { std::filesystem::remove_all(folder.path() / "val/a"); }),
              HasSubstr("val must have the 2 training classes, but lacks 1 (a)"));
  EXPECT_THAT(complaint([](const auto& folder) { folder.write("val/0/1.jpg", "x"); }), HasSubstr("has others: 1 (0)"));
  EXPECT_THAT(complaint([](const auto& folder) { std::filesystem::remove_all(folder.path() / "train/a"); }),
              HasSubstr("has others: 1 (a)"));
  EXPECT_EQ(complaint([](const auto& folder) { std::filesystem::remove_all(folder.path() / "val"); }), "none");
}

TEST(Datasets, EmptyClassIsNotedAndShiftsNoLabel) {
  const TemporaryFolder folder;
  write_images(folder);
  std::filesystem::remove(folder.path() / "val/a/1.jpg");
  folder.write("train/b/notes.txt", "x");
  kolo::test::on_ranks(1, [&](kolo::Context& context) {
    const Datasets sets = open_datasets(context, in_folder(folder.path()));
    EXPECT_EQ(sets.validation->label(0), 1);
    EXPECT_THAT(sets.notes, testing::ElementsAre(HasSubstr("train/: 1 file ignored"),
                                                 "warning: val/: classes without a JPEG or PNG file: 1 (a)"));
  });
}

TEST(TrainerCollectives, DifferentCollectivesOnRanksAreErrorOnAllRanks) {
  double number = 1;
  const auto sum = [&](kolo::Context& context) {
    double mine = number;
    sum_over_ranks(context, {&mine, 1});
  };
  const auto sum_of_two = [](kolo::Context& context) {
    std::array<double, 2> mine{};
    sum_over_ranks(context, mine);
  };
  const auto average = [](kolo::Context& context) {
    std::array<float, 2> mine{};
    average_over_ranks(context, mine);
  };
  const auto texts = [](kolo::Context& context) { (void)gather(context, "text"); };
  const auto other_texts = [](kolo::Context& context) { (void)gather(context, "text"); };
  const auto from_first = [](kolo::Context& context) {
    (void)from_rank_0(context, [] { return std::string("text"); });
  };
  const std::vector<std::function<void(kolo::Context&)>> all{sum, sum_of_two, average, texts, other_texts, from_first};
  for (std::size_t a = 0; a < all.size(); ++a) {
    for (std::size_t b = 0; b < all.size(); ++b) {
      const auto errors = errors_of(2, [&](kolo::Context& context) { all[context.rank() == 0 ? a : b](context); });
      EXPECT_EQ(errors[0], errors[1]);
      if (a == b) {
        EXPECT_EQ(errors[0], "none");
      } else {
        EXPECT_THAT(errors[0], AllOf(HasSubstr("ranks are in different collectives: rank 0 in "),
                                     HasSubstr(" at trainer_data_test.cpp:"), HasSubstr(", rank 1 in ")));
      }
    }
  }
}

TEST(TrainerCollectives, SumsAndAveragesAreOverAllRanks) {
  kolo::test::on_ranks(3, [](kolo::Context& context) {
    std::array<double, 2> sums{1.0 + context.rank(), 0.5};
    sum_over_ranks(context, sums);
    EXPECT_THAT(sums, testing::ElementsAre(6.0, 1.5));
    std::array<float, 2> means{static_cast<float>(context.rank()), 7};
    average_over_ranks(context, means);
    EXPECT_THAT(means, testing::ElementsAre(1.0F, 7.0F));
    sum_over_ranks(context, {});
  });
}

TEST(TrainerCollectives, ResultOrExceptionOfRank0ReachesAllRanks) {
  kolo::test::on_ranks(3, [](kolo::Context& context) {
    const std::string long_text(100'000, 'x');
    EXPECT_EQ(from_rank_0(context, [&] { return long_text; }), long_text);
    EXPECT_EQ(from_rank_0(context, [] { return std::string(); }), "");
    EXPECT_THAT([&] { (void)from_rank_0(context, []() -> std::string { throw kolo::Error("disk full"); }); },
                testing::ThrowsMessage<kolo::Error>("disk full"));
  });
}

TEST(CheckBroken, LimitIsOnePercentOfTheFilesButAtLeastTen) {
  EXPECT_EQ(allowed_broken(-1, 0), 10);
  EXPECT_EQ(allowed_broken(-1, 1099), 10);
  EXPECT_EQ(allowed_broken(-1, 1100), 11);
  EXPECT_EQ(allowed_broken(-1, 1'281'167), 12811);
  EXPECT_EQ(allowed_broken(0, 1'281'167), 0);
  EXPECT_EQ(allowed_broken(7, 10), 7);
}

// Rank r has damaged files r and r + 1, so that ranks share one.
TEST(CheckBroken, FileDamagedOnTwoRanksCountsOnce) {
  const auto errors_with = [](std::int64_t max_broken) {
    return errors_of(3, [&](kolo::Context& context) {
      kolo::data::EpochFiles files{21, {}};
      for (const int i : {context.rank(), context.rank() + 1}) {
        files.broken.push_back({"train/" + std::to_string(i), "is empty"});
      }
      check_broken(context, files, 2, max_broken);
    });
  };
  EXPECT_THAT(errors_with(4), testing::Each("none"));
  EXPECT_THAT(errors_with(-1), testing::Each("none"));
  EXPECT_THAT(errors_with(3),
              testing::Each(AllOf(testing::StartsWith("epoch 3: 4 of 63 files are damaged, more than 3."),
                                  HasSubstr("--max-broken:\n  train/0: is empty\n"))));
}

// The label of each image is its index.
class Numbered final : public kolo::data::Dataset {
 public:
  explicit Numbered(std::int64_t size) : size_(size), images_({.size = 1, .classes = 1, .width = 8, .height = 8}) {}
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] std::int64_t classes() const override { return size_; }
  std::span<const std::byte> bytes(std::int64_t, std::vector<std::byte>& scratch) const override {
    return images_.bytes(0, scratch);
  }
  [[nodiscard]] std::int64_t label(std::int64_t index) const override { return index; }
  [[nodiscard]] std::string name(std::int64_t index) const override { return std::to_string(index); }

 private:
  std::int64_t size_;
  kolo::data::SyntheticJpegs images_;
};

struct Drawn {
  std::vector<std::int64_t> images;  // of all ranks, in the order of the steps
  std::int64_t steps = 0;
  std::int64_t smallest_batch = 1000;
};

Drawn draw(std::int64_t size, int ranks, int batch, std::int64_t first, std::int64_t done, std::int64_t most_steps) {
  std::vector<std::vector<std::vector<std::int64_t>>> batches(static_cast<std::size_t>(ranks));
  Drawn drawn;
  for (int rank = 0; rank < ranks; ++rank) {
    Options options;
    options.batch = batch;
    options.image_size = 8;
    options.workers = 1;
    kolo::Placement placement;
    placement.rank = rank;
    placement.size = ranks;
    const auto source = make_loader_source(std::make_shared<Numbered>(size), options, placement, Part::train, at::kCPU);
    source->begin(3, first, done);
    auto& mine = batches[static_cast<std::size_t>(rank)];
    Batch next;
    while (static_cast<std::int64_t>(mine.size()) < most_steps && source->next(next)) {
      const auto* labels = next.labels.const_data_ptr<std::int64_t>();
      mine.emplace_back(labels, labels + next.labels.numel());
      drawn.smallest_batch = std::min(drawn.smallest_batch, next.labels.numel());
    }
    drawn.steps = source->steps();
    EXPECT_EQ(static_cast<std::int64_t>(mine.size()), std::min(most_steps, drawn.steps - first)) << "rank " << rank;
    EXPECT_EQ(mine.size(), batches[0].size());
  }
  for (std::size_t step = 0; step < batches[0].size(); ++step) {
    for (const auto& rank : batches) {
      EXPECT_EQ(rank[step].size(), batches[0][step].size()) << "equal batches on all ranks";
      drawn.images.insert(drawn.images.end(), rank[step].begin(), rank[step].end());
    }
  }
  return drawn;
}

constexpr std::int64_t kAll = 1000;

TEST(LoaderSource, EpochContinuedWithAnotherGlobalBatchDrawsEachRemainingImageOnce) {
  constexpr std::int64_t kSize = 60;
  for (const int old_steps : {1, 3, 7}) {
    const std::int64_t done = old_steps * 8;
    const Drawn before = draw(kSize, 2, 4, 0, 0, old_steps);
    ASSERT_EQ(static_cast<std::int64_t>(before.images.size()), done);
    const std::set<std::int64_t> seen(before.images.begin(), before.images.end());
    for (const int ranks : {1, 2, 3}) {
      for (const int batch : {1, 3, 5, 10, 17}) {
        const Drawn after = draw(kSize, ranks, batch, 0, done, kAll);
        std::set<std::int64_t> rest;
        std::int64_t repeated = 0;
        for (const std::int64_t image : after.images) {
          if (seen.contains(image) || !rest.insert(image).second) ++repeated;
        }
        EXPECT_EQ(static_cast<std::int64_t>(rest.size()), kSize - done) << "each remaining image";
        // Equal shares of the ranks, and no batch of a single image.
        EXPECT_LT(repeated, 2 * ranks) << ranks << " ranks, batch " << batch << ", done " << done;
        EXPECT_GE(after.smallest_batch, std::min(batch, 2));
        if (after.steps == 1) continue;
        // Interrupted once more, with the same batch.
        const Drawn again = draw(kSize, ranks, batch, 1, done, kAll);
        const std::vector<std::int64_t> tail(after.images.end() - static_cast<std::ptrdiff_t>(again.images.size()),
                                             after.images.end());
        EXPECT_EQ(again.images, tail);
        EXPECT_EQ(again.steps, after.steps);
      }
    }
  }
}

TEST(LoaderSource, EpochContinuedWithTheSameGlobalBatchEqualsUninterruptedEpoch) {
  const Drawn whole = draw(60, 2, 4, 0, 0, kAll);
  EXPECT_EQ(whole.images.size(), 56U) << "full batches only";
  const Drawn rest = draw(60, 2, 4, 3, 0, kAll);
  EXPECT_EQ(rest.images, std::vector<std::int64_t>(whole.images.begin() + 24, whole.images.end()));
}

TEST(LoaderSource, PositionBeyondDatasetIsUsageError) {
  EXPECT_THROW(draw(60, 2, 4, 0, 61, kAll), kolo::UsageError);
  EXPECT_THROW(draw(60, 2, 4, 8, 0, kAll), kolo::UsageError);
}

}  // namespace
}  // namespace imagenet
