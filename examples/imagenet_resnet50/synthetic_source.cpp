// Batches without files. `device`: the same ready tensors in every step, which costs nothing. `host`: a few batches of
// bytes, converted and normalised in every step, as a loader's last stage would; for a device they stay bytes here.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "batch_source.h"
#include "device_source.h"
#include "kolo/error.h"
#include "kolo/torch/images.h"

namespace imagenet {
namespace {

class SyntheticSource : public BatchSource {
 public:
  SyntheticSource(const Options& options, const kolo::Placement& placement, Part part, const c10::Device& device,
                  Normalise normalise)
      : classes_(options.classes),
        batch_(part == Part::train ? options.batch : options.val_batch),
        normalise_(std::move(normalise)),
        for_device_(!device.is_cpu()),
        options_(options),
        placement_(placement) {
    if (part == Part::train) {
      whole_ = training_steps(options.synthetic_images, options, placement) * batch_;
    } else {
      const auto all = std::clamp<std::int64_t>(options.synthetic_images / 10, 1, 50000);
      const auto [begin, end] = shard(all, placement);
      whole_ = end - begin;
    }
    images_ = whole_;
    const std::uint64_t seed = (options.seed * 2 + (part == Part::train ? 0 : 1)) * 1000003 + placement.rank;
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    const int distinct = options.data_kind == DataKind::synthetic_device ? 1 : 4;
    for (int i = 0; i < distinct; ++i) pool_.push_back(make_bytes(options.image_size, generator));
    if (options.data_kind == DataKind::synthetic_device) {
      pool_[0] = {normalise_(pool_[0].images).to(device), pool_[0].labels.to(device)};
    }
  }

  [[nodiscard]] int classes() const override { return classes_; }
  [[nodiscard]] std::int64_t steps() const override { return (images_ + batch_ - 1) / batch_; }
  void begin(std::int64_t, std::int64_t first, std::int64_t done) override {
    images_ = done == 0 ? whole_ : remaining_images(options_.synthetic_images, done, options_, placement_);
    next_ = first;
  }

  bool next(Batch& batch) override {
    if (next_ >= steps()) return false;
    const Batch& source = pool_[static_cast<std::size_t>(next_) % pool_.size()];
    const std::int64_t count = std::min<std::int64_t>(batch_, images_ - next_ * batch_);
    batch.images = source.images.narrow(0, 0, count);
    batch.labels = source.labels.narrow(0, 0, count);
    if (batch.images.scalar_type() == at::kByte && !for_device_) batch.images = normalise_(batch.images);
    ++next_;
    return true;
  }

 private:
  // Noise on a colour that tells the class, so that there is something to learn. Bytes [n, s, s, 3], seen as [n, 3, s,
  // s].
  Batch make_bytes(int size, const at::Generator& generator) const {
    const auto labels = at::randint(0, classes_, {batch_}, generator, at::TensorOptions().dtype(at::kLong));
    const auto tint = at::stack({labels.remainder(7).mul(8), labels.div(7, "floor").remainder(7).mul(8),
                                 labels.div(49, "floor").remainder(7).mul(8)},
                                1);
    const auto noise = at::randint(0, 200, {batch_, size, size, 3}, generator, at::TensorOptions().dtype(at::kByte));
    return {noise.add(tint.to(at::kByte).view({batch_, 1, 1, 3})).permute({0, 3, 1, 2}), labels};
  }

  int classes_;
  std::int64_t batch_;
  Normalise normalise_;
  bool for_device_;
  Options options_;
  kolo::Placement placement_;
  std::int64_t whole_ = 0;   // images of this rank in a whole epoch
  std::int64_t images_ = 0;  // in the epoch begun last
  std::vector<Batch> pool_;
  std::int64_t next_ = 0;
};

}  // namespace

std::pair<std::int64_t, std::int64_t> shard(std::int64_t total, const kolo::Placement& placement) {
  return {total * placement.rank / placement.size, total * (placement.rank + 1) / placement.size};
}

std::int64_t training_steps(std::int64_t images, const Options& options, const kolo::Placement& placement) {
  const std::int64_t global_batch = std::int64_t{options.batch} * placement.size;
  if (images < global_batch) {
    throw kolo::UsageError("there are " + std::to_string(images) + " training images, fewer than the " +
                           std::to_string(global_batch) + " of one step (--batch times ranks)");
  }
  return images / global_batch;
}

std::int64_t remaining_images(std::int64_t images, std::int64_t done, const Options& options,
                              const kolo::Placement& placement) {
  if (done > images) {
    throw kolo::UsageError("--resume: the checkpoint is at image " + std::to_string(done) +
                           " of its epoch, but --data has only " + std::to_string(images) +
                           " images. Was the checkpoint written with another dataset?");
  }
  const std::int64_t each = (images - done + placement.size - 1) / placement.size;
  return each + (options.batch > 1 && each % options.batch == 1 ? 1 : 0);
}

std::unique_ptr<BatchSource> make_synthetic_source(const Options& options, const kolo::Placement& placement, Part part,
                                                   const c10::Device& device, Normalise normalise) {
  return std::make_unique<SyntheticSource>(options, placement, part, device, std::move(normalise));
}

std::unique_ptr<BatchSource> make_source(kolo::Context& context, const Options& options, Part part,
                                         const c10::Device& device, const DatasetPtr& dataset) {
  const auto format = options.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  const Normalise normalise = [&context, format](const at::Tensor& bytes) {
    return kolo::normalize_images(context, bytes, {.format = format});
  };
  const bool decodes = options.data_kind == DataKind::folder || options.data_kind == DataKind::synthetic_jpeg;
  if (decodes && dataset == nullptr) return nullptr;
  auto source = decodes ? make_loader_source(dataset, options, context.placement(), part, device)
                        : make_synthetic_source(options, context.placement(), part, device, normalise);
  if (device.is_cpu()) return source;
  return std::make_unique<DeviceSource>(std::move(source), device, normalise);
}

}  // namespace imagenet
