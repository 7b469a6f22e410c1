#pragma once
// Images: the data sets of a run, which are equal on all ranks, and the batches that this rank takes from them.
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kolo/checkpoint.h"
#include "kolo/context.h"
#include "kolo/data/dataset.h"
#include "kolo/data/loader.h"
#include "options.h"

namespace imagenet {

using DatasetPtr = std::shared_ptr<const kolo::data::Dataset>;

struct Datasets {
  DatasetPtr train, validation;    // null for synthetic tensors; validation also if there is no val/
  std::vector<std::string> notes;  // files and folders that are not used, for the user
  // Fingerprint of the training images, for checkpoints; empty for synthetic data.
  kolo::checkpoint::Metadata fingerprint;
};

// Labels of validation images are those of the training classes. All ranks throw the same error: kolo::UsageError if a
// rank cannot open a data set, kolo::MismatchError with the first difference if data sets differ. Collective.
[[nodiscard]] Datasets open_datasets(kolo::Context& context, const Options& options);

// Normalized float images [n, 3, s, s] in the memory format of the options, and int64 labels [n]. Below
// make_device_source() images may be bytes.
struct Batch {
  at::Tensor images, labels;
};

// This rank's share of the training or the validation images.
//
// Training: all ranks have the same number of full batches. If an epoch is resumed with another global batch, its last
// batch may be smaller, with the same size on all ranks. Validation: ranks have disjoint, contiguous shares that cover
// each image once. Shares may differ by one image, the last batch may be smaller, and a rank may have no image.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  [[nodiscard]] virtual int classes() const = 0;
  // Number of batches of the current epoch, including those before `first`.
  [[nodiscard]] virtual std::int64_t steps() const = 0;
  // Starts an epoch at batch `first`. Batch 0 follows the first `done` images of all ranks. Batch k of epoch e is a
  // function of (seed, e, done, k, rank, world size). If done > 0, each later image occurs once, apart from padding.
  // Throws kolo::UsageError if the epoch has no such position.
  virtual void begin(std::int64_t epoch, std::int64_t first, std::int64_t done = 0) = 0;
  // Returns false at the end of the epoch. The batch is valid until the second next() after it.
  virtual bool next(Batch& batch) = 0;
  // Damaged and converted files of all epochs, and damaged files of the current one; empty for synthetic data. Names
  // begin with train/ or val/.
  [[nodiscard]] virtual kolo::data::LoaderReport report() const { return {}; }
  [[nodiscard]] virtual kolo::data::EpochFiles epoch_files() const { return {}; }
};

enum class Part { train, validation };

// Batches on `device`, from `dataset` or from synthetic tensors. Returns null if the options need a data set and
// `dataset` is null. Throws kolo::UsageError if there are fewer training images than a step takes.
std::unique_ptr<BatchSource> make_source(kolo::Context& context, const Options& options, Part part,
                                         const c10::Device& device, const DatasetPtr& dataset);

// Batches in CPU memory, decoded by kolo's loader. Images are bytes unless `device` is the CPU.
std::unique_ptr<BatchSource> make_loader_source(const DatasetPtr& dataset, const Options& options,
                                                const kolo::Placement& placement, Part part, const c10::Device& device);

// Images of a Batch from bytes [n, 3, s, s] on the same device.
using Normalize = std::function<at::Tensor(const at::Tensor& bytes)>;

// Copies the batches of `source` to `device`, while the step before computes:
//
//   CPU             loader's batch n+1 -> pinned memory
//   copy stream     [ batch n ]                 [ batch n+1 ]           [ ...
//                              \ event                       \ event
//   compute stream              [ normalize n, step n ........ ][ normalize n+1, step n+1 ...
//
// Images that are bytes are copied as bytes, a quarter of the floats, and normalized on the device. next() orders the
// current stream behind the copy, and the CPU does not wait. Works on every device that LibTorch has a backend for.
std::unique_ptr<BatchSource> make_device_source(std::unique_ptr<BatchSource> source, const c10::Device& device,
                                                Normalize normalize);

}  // namespace imagenet
