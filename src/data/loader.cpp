#include "kolo/data/loader.h"

#include <algorithm>

#include "base/cores.h"
#include "kolo/error.h"
#include "loader_state.h"

namespace kolo::data {
namespace {

void require(bool condition, const char* what) {
  if (!condition) throw UsageError(std::string("Loader: ") + what);
}

void check(const LoaderOptions& options) {
  const TransformOptions& transform = options.transform;
  require(options.batch_size >= 1, "batch_size must be at least 1");
  require(options.workers >= 1, "workers must be at least 1");
  require(options.prefetch >= 1, "prefetch must be at least 1");
  require(options.timeout.count() > 0 && options.timeout <= std::chrono::hours(168),
          "timeout must be positive, at most 168 hours");
  require(transform.image_size >= 1, "image_size must be at least 1");
  require(transform.min_area > 0 && transform.min_area <= transform.max_area && transform.max_area <= 1,
          "crop areas must satisfy 0 < min_area <= max_area <= 1");
  require(transform.min_aspect > 0 && transform.min_aspect <= transform.max_aspect,
          "crop aspects must satisfy 0 < min_aspect <= max_aspect");
  require(transform.flip_probability >= 0 && transform.flip_probability <= 1, "flip_probability must be in 0..1");
  if (transform.pixels == PixelType::u8) return;
  for (const float deviation : transform.deviation) require(deviation > 0, "deviations must be positive");
}

}  // namespace

int default_workers() {
  const base::CpuLimits limits = base::cpu_limits();
  return std::min(4, base::shared_cores({&limits, 1}));
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options) {
  require(dataset != nullptr && dataset->size() > 0, "the dataset is empty");
  check(options);
  state_ = std::make_shared<LoaderState>(std::move(dataset), options);
  state_->start_workers();
}

Loader::~Loader() { state_->stop(); }

void Loader::start_epoch(std::int64_t epoch, std::vector<std::int64_t> indices) {
  state_->start_epoch(epoch, std::move(indices));
}

std::shared_ptr<const Batch> Loader::next() { return state_->next(); }

std::int64_t Loader::batches() const { return state_->batches(); }

LoaderReport Loader::report() const { return state_->report(); }

EpochFiles Loader::epoch_files() const { return state_->epoch_files(); }

}  // namespace kolo::data
