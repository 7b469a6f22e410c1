#pragma once
// Batches of decoded, augmented images, prepared ahead by worker threads.
//
//   data::Loader loader(std::make_shared<data::ImageFolder>(root / "train"), options);
//   loader.start_epoch(epoch, sampler.next(sampler.size()));
//   while (auto batch = loader.next()) train(*batch);     // the batch's memory goes back when `batch` does
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
#include "kolo/export.h"

namespace KOLO_EXPORT kolo {
namespace data {

// Views of one of the loader's buffers, which are allocated and touched once: a steady state takes no page faults.
struct Batch {
  // Count x image_size x image_size x 3, or count x 3 x ... (Layout); 64-byte aligned. One of them, by PixelType.
  const float* images = nullptr;
  const std::uint8_t* bytes = nullptr;
  const std::int64_t* labels = nullptr;
  const std::int64_t* indices = nullptr;  // in the dataset; a replacement's own index where a broken file was replaced
  std::int64_t count = 0;                 // <= LoaderOptions::batch_size; 0 is possible with BrokenSample::skip
  std::int64_t number = 0;                // from 0 in every epoch
};

enum class BrokenSample : std::uint8_t {
  replace,  // by a random readable sample of its class: all ranks keep equal batches (training)
  skip,     // the batch gets smaller (exact evaluation)
};

// 4, or fewer if the process may use fewer cores.
[[nodiscard]] int default_workers();

struct LoaderOptions {
  TransformOptions transform;
  std::int64_t batch_size = 32;
  int workers = default_workers();
  int prefetch = 3;  // batches prepared ahead of the one in use
  bool drop_last = false;
  BrokenSample broken = BrokenSample::replace;
  std::uint64_t seed = 0;
  std::chrono::milliseconds timeout{300'000};  // of next()
};

struct OddFile {
  std::string name;
  std::string what;  // the decoder's words, or what it was converted from
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

class Loader {
 public:
  Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options);
  // Waits for the samples being decoded, not for those still queued. A worker stuck in a dead file system is left
  // behind after ten seconds (what it uses lives as long as it does).
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Abandons what is left of the current epoch and starts preparing this one at once. `indices` in the order wanted,
  // usually DistributedSampler's share of this rank.
  void start_epoch(std::int64_t epoch, std::vector<std::int64_t> indices);

  // The next batch in order; null at the end of the epoch. UsageError before the first start_epoch(). The memory is
  // lent as long as the pointer lives, also beyond the loader; at most two batches should be held at a time (the one in
  // use and the one just fetched). Rethrows what a worker threw while making this batch; the call after that goes on
  // with the next one. TimeoutError after options.timeout.
  [[nodiscard]] std::shared_ptr<const Batch> next();

  // Of the current epoch.
  [[nodiscard]] std::int64_t batches() const;
  [[nodiscard]] LoaderReport report() const;
  [[nodiscard]] EpochFiles epoch_files() const;

 private:
  std::shared_ptr<LoaderState> state_;
};

}  // namespace data
}  // namespace kolo
