#include "kolo/distributed_sampler.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "kolo/error.h"

namespace kolo {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): one 64-bit state, a weyl sequence through a mixing function.
class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t state) : state_(state) {}

  std::uint64_t next() noexcept { return mix(state_ += 0x9e3779b97f4a7c15U); }

  // Uniform in [0, bound): draws again in the few cases that would make some values likelier.
  std::uint64_t below(std::uint64_t bound) noexcept {
    const std::uint64_t rest = (0 - bound) % bound;  // 2^64 mod bound
    std::uint64_t value = next();
    while (value < rest) {
      value = next();
    }
    return value % bound;
  }

  static std::uint64_t mix(std::uint64_t value) noexcept {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31);
  }

 private:
  std::uint64_t state_;
};

}  // namespace

DistributedSampler::DistributedSampler(const SamplerOptions& options) : options_(options) {
  if (options.dataset_size < 0 || options.ranks < 1 || options.rank < 0 || options.rank >= options.ranks) {
    throw UsageError("DistributedSampler: dataset_size " + std::to_string(options.dataset_size) + ", rank " +
                     std::to_string(options.rank) + ", ranks " + std::to_string(options.ranks) +
                     "; a size is at least 0 and a rank is in [0, ranks)");
  }
  set_epoch(0);
}

std::vector<std::int64_t> DistributedSampler::order(std::int64_t dataset_size, std::uint64_t seed,
                                                    std::uint64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(dataset_size));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  SplitMix64 random(SplitMix64::mix(seed) ^ (epoch * 0xd1342543de82ef95U));
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[random.below(left)]);
  }
  return order;
}

void DistributedSampler::set_epoch(std::uint64_t epoch) {
  if (order_.empty() || (options_.shuffle && epoch != epoch_)) {
    if (options_.shuffle) {
      order_ = order(options_.dataset_size, options_.seed, epoch);
    } else {
      order_.resize(static_cast<std::size_t>(options_.dataset_size));
      std::iota(order_.begin(), order_.end(), std::int64_t{0});
    }
  }
  epoch_ = epoch;
  start_ = 0;
  taken_ = 0;
}

std::int64_t DistributedSampler::size() const noexcept {
  const std::int64_t all = options_.dataset_size - start_;
  const std::int64_t ranks = options_.ranks;
  switch (options_.tail) {
    case Tail::pad:
      return (all + ranks - 1) / ranks;
    case Tail::drop:
      return all / ranks;
    case Tail::exact:
      return all / ranks + (options_.rank < all % ranks ? 1 : 0);
  }
  return 0;
}

std::vector<std::int64_t> DistributedSampler::next(std::size_t count) {
  const auto left = static_cast<std::size_t>(std::max<std::int64_t>(size() - taken_, 0));
  std::vector<std::int64_t> samples(std::min(count, left));
  for (auto& sample : samples) {
    const std::int64_t position = start_ + taken_++ * options_.ranks + options_.rank;
    sample = order_[static_cast<std::size_t>(position % options_.dataset_size)];
  }
  return samples;
}

std::int64_t DistributedSampler::cursor() const noexcept {
  return std::min(start_ + taken_ * options_.ranks, options_.dataset_size);
}

void DistributedSampler::restore(std::uint64_t epoch, std::int64_t cursor) {
  if (cursor < 0 || cursor > options_.dataset_size) {
    throw UsageError("DistributedSampler: position " + std::to_string(cursor) + " is outside a data set of " +
                     std::to_string(options_.dataset_size) + " samples. Was the position saved with another data set?");
  }
  set_epoch(epoch);
  start_ = cursor;
}

}  // namespace kolo
