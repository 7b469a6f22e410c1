// The examples of docs/data.md.
#include <torch/types.h>

#include <filesystem>
#include <memory>

#include "kolo/context.h"
#include "kolo/data/loader.h"
#include "kolo/distributed_sampler.h"

namespace data_page {

using BatchPtr = std::shared_ptr<const kolo::data::Batch>;

void train_on(const BatchPtr& batch);  // reads images, labels and count

void train(kolo::Context& context, const std::filesystem::path& root, int epochs) {
  const auto images = std::make_shared<kolo::data::ImageFolder>(root / "train");
  kolo::DistributedSampler sampler(
      {.dataset_size = images->size(), .rank = context.rank(), .ranks = context.size(), .seed = 1});
  kolo::data::LoaderOptions options;
  options.batch_size = 32;
  options.seed = 1;
  kolo::data::Loader loader(images, options);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    sampler.set_epoch(epoch);
    loader.start_epoch(epoch, sampler.next(sampler.size()));  // the samples of this rank
    while (const BatchPtr batch = loader.next()) train_on(batch);
  }
}

// Floats [n, 3, size, size] in channels_last, without a copy. The lambda keeps the batch alive.
at::Tensor images_of(const BatchPtr& batch, int size) {
  auto* const pixels = const_cast<float*>(batch->images);
  const auto owner = [batch](void*) {};
  return at::from_blob(pixels, {batch->count, size, size, 3}, owner).permute({0, 3, 1, 2});
}

}  // namespace data_page
