// Batches from JPEG files, or from JPEGs in memory, through kolo's loader.
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "batch_source.h"
#include "kolo/distributed_sampler.h"
#include "kolo/error.h"

namespace imagenet {
namespace {

class LoaderSource : public BatchSource {
 public:
  LoaderSource(DatasetPtr dataset, const Options& options, const kolo::Placement& placement, Part part,
               const c10::Device& device)
      : dataset_(std::move(dataset)),
        options_(options),
        placement_(placement),
        part_(part),
        as_bytes_(!device.is_cpu()),
        batch_(part == Part::train ? options.batch : options.val_batch),
        loader_(dataset_, loader_options()) {
    images_ = part == Part::train ? training_steps(dataset_->size(), options, placement) * batch_
                                  : static_cast<std::int64_t>(in_order().size());
  }

  [[nodiscard]] int classes() const override { return static_cast<int>(dataset_->classes()); }
  [[nodiscard]] std::int64_t steps() const override { return (images_ + batch_ - 1) / batch_; }
  [[nodiscard]] kolo::data::LoaderReport report() const override { return loader_.report(); }
  [[nodiscard]] kolo::data::EpochFiles epoch_files() const override { return loader_.epoch_files(); }

  void begin(std::int64_t epoch, std::int64_t first, std::int64_t done) override {
    // Validation always begins at the beginning.
    auto indices = part_ == Part::train ? shuffled(epoch, first, done) : in_order();
    loader_.start_epoch(epoch, std::move(indices));
  }

  bool next(Batch& batch) override {
    const auto loaded = loader_.next();
    if (!loaded) return false;
    const std::int64_t n = loaded->count, s = options_.image_size;
    // The tensors own the loaded batch, whose memory goes back to the loader when the last of them goes.
    const auto release = [loaded](void*) {};
    const auto view = [&](const void* data, at::IntArrayRef sizes, at::ScalarType type) {
      return at::from_blob(const_cast<void*>(data), sizes, release, type);
    };
    const void* const pixels = as_bytes_ ? static_cast<const void*>(loaded->bytes) : loaded->images;
    const auto type = as_bytes_ ? at::kByte : at::kFloat;
    batch.images = layout() == kolo::data::Layout::nhwc ? view(pixels, {n, s, s, 3}, type).permute({0, 3, 1, 2})
                                                        : view(pixels, {n, 3, s, s}, type);
    batch.labels = view(loaded->labels, {n}, at::kLong);
    return true;
  }

 private:
  // Bytes are as they will be read (normalize_images), whatever becomes of them.
  [[nodiscard]] kolo::data::Layout layout() const {
    return options_.channels_last || as_bytes_ ? kolo::data::Layout::nhwc : kolo::data::Layout::nchw;
  }

  [[nodiscard]] kolo::data::LoaderOptions loader_options() const {
    kolo::data::LoaderOptions o;
    const bool train = part_ == Part::train;
    o.transform.augment = train ? kolo::data::Augment::train : kolo::data::Augment::eval;
    o.transform.image_size = options_.image_size;
    o.transform.layout = layout();
    o.transform.pixels = as_bytes_ ? kolo::data::PixelType::u8 : kolo::data::PixelType::f32;
    o.batch_size = batch_;
    o.workers = options_.workers;
    o.broken = train ? kolo::data::BrokenSample::replace : kolo::data::BrokenSample::skip;
    o.seed = options_.seed;
    return o;
  }

  // What this rank takes of the epoch's order after the first `done` images and `first` batches of every rank.
  [[nodiscard]] std::vector<std::int64_t> shuffled(std::int64_t epoch, std::int64_t first, std::int64_t done) {
    images_ = done == 0 ? training_steps(dataset_->size(), options_, placement_) * batch_
                        : remaining_images(dataset_->size(), done, options_, placement_);
    kolo::DistributedSampler sampler({dataset_->size(), placement_.rank, placement_.size, options_.seed});
    sampler.restore(static_cast<std::uint64_t>(epoch), done + first * batch_ * placement_.size);
    const auto wanted = static_cast<std::size_t>(images_ - first * batch_);
    auto indices = sampler.next(wanted);
    if (indices.size() < wanted) indices.push_back(indices.back());  // see remaining_images()
    return indices;
  }

  [[nodiscard]] std::vector<std::int64_t> in_order() const {
    const auto [begin, end] = shard(dataset_->size(), placement_);
    std::vector<std::int64_t> indices(static_cast<std::size_t>(end - begin));
    std::iota(indices.begin(), indices.end(), begin);
    return indices;
  }

  DatasetPtr dataset_;
  Options options_;
  kolo::Placement placement_;
  Part part_;
  bool as_bytes_;
  std::int64_t batch_;
  kolo::data::Loader loader_;
  std::int64_t images_ = 0;  // of this rank in the epoch
};

}  // namespace

std::unique_ptr<BatchSource> make_loader_source(const DatasetPtr& dataset, const Options& options,
                                                const kolo::Placement& placement, Part part,
                                                const c10::Device& device) {
  return std::make_unique<LoaderSource>(dataset, options, placement, part, device);
}

}  // namespace imagenet
