#pragma once
// The samples of a dataset that each rank uses, and their order.
//
//   kolo::DistributedSampler sampler({.dataset_size = 50'000, .rank = context.rank(), .ranks = context.size()});
//   sampler.set_epoch(epoch);
//   for (auto batch = sampler.next(32); !batch.empty(); batch = sampler.next(32)) train(batch);
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kolo/detail/export.h"
#include "kolo/types.h"

namespace KOLO_EXPORT kolo {

// The treatment of the last samples if dataset_size is not a multiple of the number of ranks.
//   pad    the order continues with its beginning, so that all ranks have equally many samples
//   drop   they are left out of this epoch; another epoch leaves out others
//   exact  each sample once, so that some ranks have one sample less: for evaluation
enum class Tail : std::uint8_t { pad, drop, exact };

struct SamplerOptions {
  std::int64_t dataset_size = 0;
  Rank rank = 0;
  int ranks = 1;
  std::uint64_t seed = 0;
  bool shuffle = true;  // false: the order of the dataset
  Tail tail = Tail::pad;
};

// The order of an epoch depends on (seed, epoch, dataset_size) only: a Fisher-Yates shuffle driven by SplitMix64, equal
// for all compilers, libraries and numbers of ranks. Rank r uses positions r, r + ranks, r + 2 * ranks and so on. If
// the global batch size stays constant, each global batch holds the same samples for any number of ranks. Not
// thread-safe.
class DistributedSampler {
 public:
  // Throws UsageError for a negative size or a rank outside [0, ranks).
  explicit DistributedSampler(const SamplerOptions& options);

  // Starts at position 0 of an epoch, also after restore(). A new sampler starts in epoch 0.
  void set_epoch(std::uint64_t epoch);
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }

  // The next samples of this rank, at most `count`; empty at the end of the epoch.
  [[nodiscard]] std::vector<std::int64_t> next(std::size_t count);
  // Number of samples of this rank in the epoch, or, after restore(), in the rest of the epoch.
  [[nodiscard]] std::int64_t size() const noexcept;

  // The global position: the samples that this rank has used, times `ranks`, plus the restored position; at most
  // dataset_size. epoch() and cursor() are sufficient to resume, also with another number of ranks.
  [[nodiscard]] std::int64_t cursor() const noexcept;
  // Resumes at position `cursor`: rank r uses positions cursor + r, cursor + r + ranks and so on. SamplerOptions::tail
  // applies if the remaining samples are not a multiple of `ranks`. Throws UsageError unless 0 <= cursor <=
  // dataset_size.
  void restore(std::uint64_t epoch, std::int64_t cursor);

  // The order of all samples in an epoch.
  [[nodiscard]] static std::vector<std::int64_t> order(std::int64_t dataset_size, std::uint64_t seed,
                                                       std::uint64_t epoch);

 private:
  SamplerOptions options_;
  std::uint64_t epoch_ = 0;
  std::int64_t start_ = 0;  // position at which the ranks started
  std::int64_t taken_ = 0;  // samples of this rank since then
  std::vector<std::int64_t> order_;
};

}  // namespace kolo
