#pragma once
// Which samples of a dataset each rank takes, and in which order.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kolo/export.h"
#include "kolo/types.h"

namespace KOLO_EXPORT kolo {

// What happens to the samples that do not divide by the ranks.
//   pad    the order goes on with its own beginning, so that every rank has as many
//   drop   they are left out of this epoch (the next one leaves out others)
//   exact  every sample once: the last ranks have one less. For evaluation.
enum class Tail : std::uint8_t { pad, drop, exact };

struct SamplerOptions {
  std::int64_t dataset_size = 0;
  Rank rank = 0;
  int ranks = 1;
  std::uint64_t seed = 0;
  bool shuffle = true;  // false: the dataset's own order
  Tail tail = Tail::pad;
};

// The order of an epoch is a function of (seed, epoch, dataset_size) alone: a Fisher-Yates shuffle driven by SplitMix64
// (src/runtime/distributed_sampler.cpp), the same with every compiler, library and number of ranks. Of that one order
// rank r takes positions r, r + ranks, r + 2 * ranks ... So a global batch is the same set of samples whatever the
// number of ranks. Not thread-safe.
class DistributedSampler {
 public:
  // Throws UsageError for a negative size or a rank outside [0, ranks).
  explicit DistributedSampler(const SamplerOptions& options);

  // Starts an epoch from its beginning.
  void set_epoch(std::uint64_t epoch);
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }

  // The next samples of this rank, at most `count`; empty at the end of the epoch.
  [[nodiscard]] std::vector<std::int64_t> next(std::size_t count);
  // Number of samples of this rank in the epoch, or, after restore(), in the rest of the epoch.
  [[nodiscard]] std::int64_t size() const noexcept;

  // Position in the epoch's order: the samples that all ranks have taken, if each took as many as this rank. At most
  // dataset_size. epoch() and cursor() are sufficient to resume, also with another number of ranks.
  [[nodiscard]] std::int64_t cursor() const noexcept;
  // Resumes at position `cursor`: rank r takes positions cursor + r, cursor + r + ranks and so on. SamplerOptions::tail
  // applies if the remaining samples are not a multiple of `ranks`. Throws UsageError unless 0 <= cursor <=
  // dataset_size.
  void restore(std::uint64_t epoch, std::int64_t cursor);

  // The whole order of an epoch.
  [[nodiscard]] static std::vector<std::int64_t> order(std::int64_t dataset_size, std::uint64_t seed,
                                                       std::uint64_t epoch);

 private:
  SamplerOptions options_;
  std::uint64_t epoch_ = 0;
  std::int64_t start_ = 0;  // position from which the ranks take
  std::int64_t taken_ = 0;  // by this rank, from there
  std::vector<std::int64_t> order_;
};

}  // namespace kolo
