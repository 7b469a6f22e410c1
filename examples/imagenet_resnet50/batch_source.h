#pragma once
// Where a rank's batches come from: the JPEG loader or made-up numbers, behind one interface.
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "datasets.h"
#include "kolo/context.h"
#include "kolo/data/loader.h"
#include "kolo/types.h"
#include "options.h"

namespace imagenet {

// Normalised images [n, 3, s, s] in float, in the options' memory format, and labels [n] in int64. A source below a
// DeviceSource may have them as bytes.
struct Batch {
  at::Tensor images, labels;
};

// This rank's share of the training or the validation images.
//
// Training: every rank has the same number of full batches. If an epoch is resumed with another global batch, its last
// batch may be smaller, with the same size on every rank. Validation: ranks hold disjoint runs that cover each image
// once. Shares may differ by one image, the last batch may be smaller, and a rank may have no image.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  [[nodiscard]] virtual int classes() const = 0;
  // Number of batches of the current epoch, including those before `first`.
  [[nodiscard]] virtual std::int64_t steps() const = 0;
  // Starts an epoch at batch `first`. Batch 0 follows the first `done` images of all ranks. Batch k of epoch e is a
  // function of (seed, e, done, k, rank, world size). If done > 0, each later image occurs once, apart from padding.
  virtual void begin(std::int64_t epoch, std::int64_t first, std::int64_t done = 0) = 0;
  // False at the end. The batch is good until the second next() after it.
  virtual bool next(Batch& batch) = 0;
  // Files that were broken or had to be converted; nothing for synthetic data.
  [[nodiscard]] virtual kolo::data::LoaderReport report() const { return {}; }
  // Of the epoch begun last.
  [[nodiscard]] virtual kolo::data::EpochFiles epoch_files() const { return {}; }
};

enum class Part { train, validation };

// Images of a Batch from bytes [n, 3, s, s], where these are.
using Normalise = std::function<at::Tensor(const at::Tensor& bytes)>;

// Of batches on `device`, from `dataset` or, for made-up tensors, from nothing. Null if there is no data set for files.
// Throws kolo::UsageError when there are fewer images than a step takes.
std::unique_ptr<BatchSource> make_source(kolo::Context& context, const Options& options, Part part,
                                         const c10::Device& device, const DatasetPtr& dataset);

// The run [first, second) of `total` items that belongs to a rank.
std::pair<std::int64_t, std::int64_t> shard(std::int64_t total, const kolo::Placement& placement);
// Full batches on every rank. Throws kolo::UsageError when there is none.
std::int64_t training_steps(std::int64_t images, const Options& options, const kolo::Placement& placement);
// Images of each rank if the ranks share the images after the first `done` equally, with padding. If the batch size is
// above 1, the last batch has at least two images, because BatchNorm has no variance for one image.
std::int64_t remaining_images(std::int64_t images, std::int64_t done, const Options& options,
                              const kolo::Placement& placement);

// In the host's memory, but for synthetic:device. Images that are made or decoded on the host are bytes where `device`
// is not the CPU.
std::unique_ptr<BatchSource> make_synthetic_source(const Options& options, const kolo::Placement& placement, Part part,
                                                   const c10::Device& device, Normalise normalise);
std::unique_ptr<BatchSource> make_loader_source(const DatasetPtr& dataset, const Options& options,
                                                const kolo::Placement& placement, Part part, const c10::Device& device);

}  // namespace imagenet
