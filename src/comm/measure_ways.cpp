// The constants see links one by one. What ranks cost each other that share cores, what a shaper lets pass, where a
// copy falls out of a cache: that shows only when everybody does the whole thing. So every way is taken at a few sizes,
// in turns, and what it takes over what the constants say corrects the model at that size.
#include "comm/measure_ways.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "comm/select.h"
#include "kolo/error.h"

namespace kolo::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSizes[] = {8,        128,       1 << 10,   4 << 10,   8 << 10, 16 << 10, 32 << 10,
                                  64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20,  4 << 20};
constexpr double kSizeUs = 80'000;      // about what all trials of a size may take
constexpr double kLongestUs = 100'000;  // of all ways once: no larger size after it
constexpr double kLongestRestUs = 1000;
constexpr int kFewestTrials = 5;
constexpr int kMostTrials = 41;
// A way that is this much slower than the best is not tried at larger sizes, from where they take time, but taken for
// that much slower there.
constexpr double kHopeless = 3;
constexpr std::size_t kHopelessFrom = 256 << 10;

struct Contest {
  std::vector<Way> ways;
  std::vector<double> us;  // each way's median at the last size
  [[nodiscard]] double sum() const {
    double all = 0;
    for (const double one : us) all += one;
    return all;
  }
  [[nodiscard]] double best() const { return *std::ranges::min_element(us); }
};

class WayMeter {
 public:
  WayMeter(const HierarchicalParts& parts, const CostConstants& constants, const base::Deadline& deadline,
           std::vector<float>& memory)
      : constants_(constants), deadline_(deadline), memory_(memory) {
    AlgorithmicParts flat = parts.whole;
    flat.shared_memory = nullptr;
    flat.hosts = static_cast<int>(parts.hosts.size());
    all_ = make_algorithmic(flat);
    surroundings_ = {.size = all_->size(), .hosts = flat.hosts, .segment_bytes = flat.ring_segment_bytes};
    memory_.assign(kSizes[std::size(kSizes) - 1] / sizeof(float), 0.0F);
    contest_.ways = {Way::ring, Way::tree, Way::halving_doubling, Way::recursive_doubling};
    if (std::ranges::any_of(parts.hosts, [](const auto& host) { return host.size() > 1; })) add_hierarchical(parts);
  }

  [[nodiscard]] Corrections run() {
    Corrections corrections(surroundings_);
    double round_us = 0;  // what all ways took, at the last size
    for (const std::size_t bytes : kSizes) {
      if (round_us > kLongestUs) break;
      const int trials = static_cast<int>(
          std::clamp(kSizeUs / std::max(2 * round_us, 1.0), double{kFewestTrials}, double{kMostTrials}));
      measure(bytes, trials);
      const auto add = [&](Way way, double us) {
        corrections.add(way, bytes, us / cost_us(way, {bytes}, surroundings_, constants_));
      };
      for (std::size_t w = 0; w < contest_.ways.size(); ++w) add(contest_.ways[w], contest_.us[w]);
      for (const Way way : left_behind_) add(way, kHopeless * contest_.best());
      round_us = contest_.sum();
      if (bytes >= kHopelessFrom) leave_behind();
    }
    return corrections;
  }

 private:
  // Unless a host has no memory for it, of which all ranks must know.
  void add_hierarchical(const HierarchicalParts& parts) {
    hierarchical_ = make_hierarchical(parts);
    double without = 0;
    try {
      const std::size_t most = memory_.size() * sizeof(float);
      shared_ = std::move(hierarchical_->allocate({&most, 1}, left()).front());
    } catch (const BackendError&) {
      without = 1;
    }
    agree_on_largest(*all_, memory_, {&without, 1}, left());
    if (without != 0) return;
    contest_.ways.push_back(Way::hierarchical);
    std::size_t lanes = parts.hosts.front().size();
    for (const auto& host : parts.hosts) lanes = std::min(lanes, host.size());
    surroundings_.lanes = static_cast<int>(lanes);
  }

  // A trial takes as long as its slowest rank, and who comes first is another one in each.
  void measure(std::size_t bytes, int trials) {
    const std::size_t ways = contest_.ways.size();
    std::vector<double> times(ways * static_cast<std::size_t>(trials));
    for (int trial = -1; trial < trials; ++trial) {  // the first only warms up
      for (std::size_t turn = 0; turn < ways; ++turn) {
        const std::size_t way = (turn + static_cast<std::size_t>(trial + 1)) % ways;
        const double us = once(contest_.ways[way], bytes);
        if (trial >= 0) times[way * static_cast<std::size_t>(trials) + static_cast<std::size_t>(trial)] = us;
      }
    }
    agree_on_largest(*all_, memory_, times, left());
    contest_.us.clear();
    for (auto first = times.begin(); first != times.end(); first += trials) {
      std::nth_element(first, first + trials / 2, first + trials);
      contest_.us.push_back(first[trials / 2]);
    }
  }

  double once(Way way, std::size_t bytes) {
    AllreduceOptions options;
    options.count = bytes / sizeof(float);
    options.algorithm = algorithm_of(way);
    const bool shared = way == Way::hierarchical;
    options.registered = shared ? shared_.get() : nullptr;
    options.data = shared ? shared_->data().data() : reinterpret_cast<std::byte*>(memory_.data());
    Communicator& group = shared ? *hierarchical_ : *all_;
    std::this_thread::sleep_for(rest_after(bytes));
    all_->barrier(left());
    const auto start = Clock::now();
    group.allreduce(options, left());
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  }

  // A link that is shaped lets some bytes pass at once after a rest, as it does between two steps of training.
  [[nodiscard]] std::chrono::microseconds rest_after(std::size_t bytes) const {
    const double us = 2 * static_cast<double>(bytes) * constants_.network.beta_us;
    return std::chrono::microseconds(static_cast<int>(std::min(us, kLongestRestUs)));
  }

  void leave_behind() {
    std::vector<Way> stay;
    for (std::size_t w = 0; w < contest_.ways.size(); ++w) {
      (contest_.us[w] <= kHopeless * contest_.best() ? stay : left_behind_).push_back(contest_.ways[w]);
    }
    contest_.ways = std::move(stay);
  }

  [[nodiscard]] std::chrono::milliseconds left() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(deadline_.left());
  }

  const CostConstants& constants_;
  const base::Deadline& deadline_;
  std::vector<float>& memory_;
  std::unique_ptr<Communicator> all_;
  std::unique_ptr<Communicator> hierarchical_;
  std::unique_ptr<RegisteredBuffer> shared_;  // its
  Surroundings surroundings_;
  Contest contest_;
  std::vector<Way> left_behind_;
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
                         std::vector<float>& memory) {
  if (parts.hosts.size() == 1) return {};
  return WayMeter(parts, constants, deadline, memory).run();
}

}  // namespace kolo::comm
