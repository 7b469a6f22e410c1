#pragma once
// Batches of decoded, augmented images, prepared by worker threads.
//
//   kolo::data::Loader loader(std::make_shared<kolo::data::ImageFolder>(root / "train"), options);
//   sampler.set_epoch(epoch);
//   loader.start_epoch(epoch, sampler.next(sampler.size()));
//   while (auto batch = loader.next()) train(*batch);
//   report(loader.report());
//
// The pixels of a sample, and the replacement of a broken sample, are a function of (seed, epoch, index) alone. The
// number of workers and of ranks does not change them.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kolo/data/dataset.h"
#include "kolo/data/transform.h"
#include "kolo/detail/export.h"

namespace KOLO_EXPORT kolo {
namespace data {

// Views of a buffer of the loader. Buffers are allocated once, so that a steady state has no page faults.
struct Batch {
  // [count, image_size, image_size, 3], or [count, 3, image_size, image_size] (Layout); aligned to 64 bytes. `images`
  // is set for PixelType::f32, `bytes` for u8; the other one is null.
  const float* images = nullptr;
  const std::uint8_t* bytes = nullptr;
  const std::int64_t* labels = nullptr;
  const std::int64_t* indices = nullptr;  // in the dataset; for a replaced broken file the index of the replacement
  std::int64_t count = 0;                 // <= LoaderOptions::batch_size; 0 is possible with BrokenSample::skip
  std::int64_t number = 0;                // from 0 in every epoch
};

enum class BrokenSample : std::uint8_t {
  replace,  // by a random readable sample of its class: all ranks keep equal batches, for training
  skip,     // the batch gets smaller, for exact evaluation
};

// 4, or fewer if the process may use fewer cores.
[[nodiscard]] int default_workers();

struct LoaderOptions {
  TransformOptions transform;
  std::int64_t batch_size = 32;
  int workers = default_workers();
  int prefetch = 3;  // batches that are prepared in advance
  bool drop_last = false;
  BrokenSample broken = BrokenSample::replace;
  std::uint64_t seed = 0;
  std::chrono::milliseconds timeout{300'000};  // of next()
};

struct OddFile {
  std::string name;
  std::string what;  // the decoder's message, or the format before the conversion
};

// Totals of all epochs. The lists name each file once, in dataset order; the numbers count samples.
struct LoaderReport {
  std::int64_t decoded = 0;
  std::int64_t replaced = 0;
  std::int64_t skipped = 0;
  std::vector<OddFile> broken;     // empty, truncated, corrupt, not an image, unreadable
  std::vector<OddFile> converted;  // CMYK, YCCK or grey JPEG; PNG
};

// Files of the batches that next() has delivered in the current epoch.
struct EpochFiles {
  std::int64_t read = 0;        // files read, including damaged files and their replacements
  std::vector<OddFile> broken;  // damaged files, each once, in dataset order
};

class LoaderState;

// Use from one thread.
class Loader {
 public:
  Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options);
  // Waits for the samples that are being decoded, not for queued ones. A worker that hangs in a file system is
  // abandoned after ten seconds; its memory lives until it ends.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Abandons the rest of the current epoch and starts to prepare this one. `indices` in order: usually the samples of
  // this rank from a DistributedSampler.
  void start_epoch(std::int64_t epoch, std::vector<std::int64_t> indices);

  // The next batch in order; null at the end of the epoch. Its memory is valid while the pointer lives, also after the
  // loader. Each held batch beyond two reduces the prefetch; with all buffers held, next() throws TimeoutError. Throws
  // UsageError before the first start_epoch(), TimeoutError after LoaderOptions::timeout. Rethrows an error of a worker
  // and then continues with the following batch.
  [[nodiscard]] std::shared_ptr<const Batch> next();

  // Number of batches of the current epoch.
  [[nodiscard]] std::int64_t batches() const;
  [[nodiscard]] LoaderReport report() const;
  [[nodiscard]] EpochFiles epoch_files() const;

 private:
  std::shared_ptr<LoaderState> state_;
};

}  // namespace data
}  // namespace kolo
