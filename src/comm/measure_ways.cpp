// The constants see links one by one. What ranks cost each other that share cores, what a shaper lets pass, where a
// copy falls out of a cache: that shows only when everybody does the whole thing. So every way is taken at a few sizes,
// in turns, and what it takes over what the constants say corrects the model at that size. Machines have slow seconds,
// and ranks that share a core settle into one habit or another: so there are several passes over the sizes.
#include "comm/measure_ways.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <thread>

#include "base/trials.h"
#include "comm/select.h"
#include "kolo/error.h"

namespace kolo::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSizes[] = {8,        128,       1 << 10,   4 << 10,   8 << 10, 16 << 10, 32 << 10,
                                  64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20,  4 << 20};
constexpr int kPasses = 5;
constexpr double kSizeUs = 20'000;  // about what all trials of a size may take in a pass
constexpr int kFewestTrials = 2;
constexpr int kMostTrials = 50;
// A way that is this much slower than the best is not tried at larger sizes, from where they take time, but taken for
// that much slower there.
constexpr double kHopeless = 3;
constexpr std::size_t kHopelessFrom = 256 << 10;

constexpr double kNever = std::numeric_limits<double>::infinity();

class WayMeter {
 public:
  WayMeter(const HierarchicalParts& parts, const CostConstants& constants, const base::Deadline& deadline,
           std::vector<float>& memory, const WaysMeasured& range)
      : constants_(constants), deadline_(deadline), memory_(memory), range_(range) {
    AlgorithmicParts flat = parts.whole;
    flat.shared_memory = nullptr;
    flat.costs = {constants_, {}};
    flat.hosts = static_cast<int>(parts.hosts.size());
    group_ = make_algorithmic(flat);
    surroundings_ = {.size = group_->size(), .hosts = flat.hosts, .segment_bytes = flat.ring_segment_bytes};
    memory_.assign(kSizes[std::size(kSizes) - 1] / sizeof(float), 0.0F);
    if (std::ranges::any_of(parts.hosts, [](const auto& host) { return host.size() > 1; })) add_hierarchical(parts);
    for (auto& by_way : taken_us_) by_way.resize(ways_.size());
  }

  [[nodiscard]] Corrections run() {
    const auto longest_us = static_cast<double>(range_.longest.count());
    for (int pass = 0; pass < kPasses; ++pass) {
      for (std::size_t size = 0; size < std::size(kSizes); ++size) {
        if (kSizes[size] > range_.largest_bytes || (size > 0 && all_us(size - 1) > longest_us)) break;
        measure(size, candidates(size));
      }
    }
    return corrections();
  }

 private:
  // Unless a host has no memory for it, of which all ranks must know.
  void add_hierarchical(const HierarchicalParts& parts) {
    HierarchicalParts as_later = parts;
    as_later.whole.costs = {constants_, {}};
    std::unique_ptr<Communicator> hierarchical = make_hierarchical(as_later);
    double without = 0;
    try {
      const std::size_t most = memory_.size() * sizeof(float);
      shared_ = std::move(hierarchical->allocate({&most, 1}, left()).front());
    } catch (const BackendError&) {
      without = 1;
    }
    agree_on_largest(*group_, memory_, {&without, 1}, left());
    if (without != 0) {
      shared_.reset();
      return;
    }
    group_ = std::move(hierarchical);  // which knows the other ways, too
    ways_.push_back(Way::hierarchical);
    std::size_t lanes = parts.hosts.front().size();
    for (const auto& host : parts.hosts) lanes = std::min(lanes, host.size());
    surroundings_.lanes = static_cast<int>(lanes);
  }

  // The median of what a way took; kNever: it was not tried.
  [[nodiscard]] double typical_us(std::size_t size, std::size_t way) const {
    std::vector<double> times = taken_us_[size][way];
    if (times.empty()) return kNever;
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return *middle;
  }
  [[nodiscard]] double best_us(std::size_t size) const {
    double best = kNever;
    for (std::size_t way = 0; way < ways_.size(); ++way) best = std::min(best, typical_us(size, way));
    return best;
  }
  [[nodiscard]] double all_us(std::size_t size) const {
    double sum = 0;
    for (std::size_t way = 0; way < ways_.size(); ++way) {
      if (!taken_us_[size][way].empty()) sum += typical_us(size, way);
    }
    return sum;
  }

  // Places in ways_. By what all ranks agree on.
  [[nodiscard]] std::vector<std::size_t> candidates(std::size_t size) const {
    std::vector<std::size_t> found;
    const bool all_may = size == 0 || kSizes[size - 1] < kHopelessFrom;
    const double most = all_may ? kNever : kHopeless * best_us(size - 1);
    for (std::size_t way = 0; way < ways_.size(); ++way) {
      if (all_may || typical_us(size - 1, way) <= most) found.push_back(way);
    }
    return found;
  }

  // What all ways once should take: as last time; at first, twice what the size before took. Nobody knows for the
  // first.
  [[nodiscard]] double expected_us(std::size_t size) const {
    if (!taken_us_[size].front().empty()) return all_us(size);
    return size == 0 ? kSizeUs : 2 * all_us(size - 1);
  }

  [[nodiscard]] int trials_at(std::size_t size, std::size_t ways) const {
    const double rests = static_cast<double>(base::rest_before_trial(kSizes[size]).count()) * static_cast<double>(ways);
    return static_cast<int>(
        std::clamp(kSizeUs / (expected_us(size) + rests), double{kFewestTrials}, double{kMostTrials}));
  }

  // A trial takes as long as its slowest rank.
  void measure(std::size_t size, const std::vector<std::size_t>& ways) {
    const int trials = trials_at(size, ways.size());
    std::vector<double> times(ways_.size() * static_cast<std::size_t>(trials));  // by way, then trial
    for (int trial = -1; trial < trials; ++trial) {                              // the first only warms up
      for (const std::size_t turn : base::turns_of_trial(ways.size(), static_cast<std::uint32_t>(trial + 1))) {
        const std::size_t way = ways[turn];
        const double us = once(ways_[way], kSizes[size]);
        if (trial >= 0) times[way * static_cast<std::size_t>(trials) + static_cast<std::size_t>(trial)] = us;
      }
    }
    agree_on_largest(*group_, memory_, times, left());
    for (const std::size_t way : ways) {
      const auto first = times.begin() + static_cast<std::ptrdiff_t>(way) * trials;
      taken_us_[size][way].insert(taken_us_[size][way].end(), first, first + trials);
    }
  }

  double once(Way way, std::size_t bytes) {
    AllreduceOptions options;
    options.count = bytes / sizeof(float);
    options.algorithm = algorithm_of(way);
    const bool shared = way == Way::hierarchical;
    options.registered = shared ? shared_.get() : nullptr;
    options.data = shared ? shared_->data().data() : reinterpret_cast<std::byte*>(memory_.data());
    std::this_thread::sleep_for(base::rest_before_trial(bytes));
    group_->barrier(left());
    const auto start = Clock::now();
    group_->allreduce(options, left());
    const std::chrono::duration<double, std::micro> took = Clock::now() - start;
    group_->barrier(left());  // nobody goes to sleep while others are still reducing
    return took.count();
  }

  [[nodiscard]] Corrections corrections() const {
    Corrections found(surroundings_);
    for (std::size_t size = 0; size < std::size(kSizes) && best_us(size) != kNever; ++size) {
      const double left_behind = kHopeless * best_us(size);
      for (std::size_t way = 0; way < ways_.size(); ++way) {
        const double us = taken_us_[size][way].empty() ? left_behind : typical_us(size, way);
        found.add(ways_[way], kSizes[size], us / cost_us(ways_[way], {kSizes[size]}, surroundings_, constants_));
      }
    }
    return found;
  }

  [[nodiscard]] std::chrono::milliseconds left() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(deadline_.left());
  }

  const CostConstants& constants_;
  const base::Deadline& deadline_;
  std::vector<float>& memory_;
  const WaysMeasured range_;
  std::unique_ptr<Communicator> group_;       // the hierarchical one where there is one
  std::unique_ptr<RegisteredBuffer> shared_;  // its
  Surroundings surroundings_;
  std::vector<Way> ways_{Way::ring, Way::tree, Way::halving_doubling, Way::recursive_doubling};
  std::array<std::vector<std::vector<double>>, std::size(kSizes)> taken_us_;  // by size, way and trial
};

}  // namespace

void agree_on_largest(Communicator& all, std::vector<float>& memory, std::span<double> values,
                      std::chrono::milliseconds timeout) {
  std::memcpy(memory.data(), values.data(), values.size_bytes());
  AllreduceOptions options;
  options.data = reinterpret_cast<std::byte*>(memory.data());
  options.count = values.size();
  options.dtype = DType::f64;
  options.op = ReduceOp::max;
  options.algorithm = Algorithm::ring;
  all.allreduce(options, timeout);
  std::memcpy(values.data(), memory.data(), values.size_bytes());
}

Corrections measure_ways(const HierarchicalParts& parts, const CostConstants& constants, const base::Deadline& deadline,
                         std::vector<float>& memory, const WaysMeasured& range) {
  if (parts.hosts.size() == 1) return {};
  return WayMeter(parts, constants, deadline, memory, range).run();
}

}  // namespace kolo::comm
