// Measured by the collectives that the constants are for, so that they contain what those really meet: the transport,
// the waiting, and ranks that share cores. All lanes work at once, as they do later; a lane's bytes are counted as
// often as it has company on its host's link.
//
//   recursive doubling, one element               rounds x alpha
//   ring, 8 segments a block                      bytes x beta
//   halving and doubling, 8 segments a block      rounds x alpha + bytes x beta x partner_factor
//   recursive doubling, 8 segments                rounds x (alpha + bytes x beta x whole_factor)
//   direct, one element, all ranks of a host      sync
//   a sum of two arrays in the cache              bytes x gamma
#include "comm/measure_costs.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <vector>

#include "base/deadline.h"
#include "collectives/reduction.h"
#include "kolo/error.h"
#include "transport/subset.h"

namespace kolo::comm {
namespace {

constexpr std::size_t kSegments = 8;
constexpr std::size_t kLongestSegment = std::size_t{1} << 20;
constexpr std::size_t kMembers = 8;        // of the groups that measure: so many that each has partners that change
constexpr double kTooLongToRepeat = 1e12;  // us a message
constexpr int kShortTrials = 31;
constexpr int kLongTrials = 5;

// What one kind of link showed.
struct Seen {
  double alpha_us = 0;
  double beta_us = 0;
  double whole_factor = 0;
  double partner_factor = 0;
};

double median_us(int trials, const std::function<void()>& body) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  body();
  for (int i = 0; i < trials; ++i) {
    const auto start = Clock::now();
    body();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + trials / 2, times.end());
  return times[static_cast<std::size_t>(trials / 2)];
}

class Meter {
 public:
  Meter(const AlgorithmicParts& parts, const base::Deadline& deadline, std::vector<float>& memory)
      : parts_(parts), shared_memory_(parts.shared_memory), deadline_(deadline), memory_(memory) {
    parts_.shared_memory = nullptr;
    // Messages that nobody would rather halve: what whole ones take is measured.
    CostConstants& constants = parts_.costs.constants;
    constants.host.alpha_us = constants.network.alpha_us = kTooLongToRepeat;
    memory_.assign(kMembers * stream() / sizeof(float), 0.0F);
  }

  // Over the links between some of `all`, of which this rank is one; `sharing` such groups use them at once.
  Seen links(transport::Transport& whole, const std::vector<Rank>& all, int sharing) {
    const std::vector<Rank> members = around(whole.rank(), all);
    if (members.size() < 2) return {};
    const auto subset = transport::make_subset(whole, members);
    parts_.transport = subset.get();
    const auto group = make_algorithmic(parts_);
    const double p = static_cast<double>(members.size());
    const auto steps = std::bit_width(members.size() - 1);
    const auto surplus = std::has_single_bit(members.size()) ? 0 : 1;  // they ask a neighbour first
    const double rounds = static_cast<double>(steps) + surplus;

    Seen seen;
    seen.alpha_us = time(*group, Algorithm::recursive_doubling, sizeof(float), kShortTrials) / rounds;
    const double ring = time(*group, Algorithm::ring, stream() * members.size(), kLongTrials);
    const double sent = 2 * (p - 1) * static_cast<double>(stream());
    seen.beta_us = ring / (sent * sharing);
    const double halving = time(*group, Algorithm::halving_doubling, stream() * members.size(), kLongTrials);
    const double on_the_way = halving - 2 * static_cast<double>(steps) * seen.alpha_us;
    if (members.size() > 2) seen.partner_factor = std::max(0.0, on_the_way / ring);
    const double whole_time =
        time(*group, Algorithm::recursive_doubling, stream(), kLongTrials) / rounds - seen.alpha_us;
    seen.whole_factor = whole_time / (static_cast<double>(stream()) * sharing * seen.beta_us);
    return seen;
  }

  // One meeting of a host's ranks on counters in shared memory; 0: they have none.
  double meeting(transport::Transport& whole, const std::vector<Rank>& host) {
    if (shared_memory_ == nullptr || host.size() < 2) return 0;
    const auto subset = transport::make_subset(whole, host);
    AlgorithmicParts parts = parts_;
    parts.transport = subset.get();
    parts.shared_memory = shared_memory_;
    parts.hosts = 1;
    const auto group = make_algorithmic(parts);
    return time(*group, Algorithm::direct, sizeof(float), kShortTrials);
  }

  [[nodiscard]] std::chrono::milliseconds left() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(deadline_.left());
  }

 private:
  [[nodiscard]] std::size_t stream() const {
    return kSegments * std::min(parts_.ring_segment_bytes, kLongestSegment) / sizeof(float) * sizeof(float);
  }

  // The kMembers of `all` that `rank` is among; fewer at the end, none where it is not.
  static std::vector<Rank> around(Rank rank, const std::vector<Rank>& all) {
    const auto self = static_cast<std::size_t>(std::find(all.begin(), all.end(), rank) - all.begin());
    if (self == all.size()) return {};
    const std::size_t first = self - self % kMembers;
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
    return {begin, begin + static_cast<std::ptrdiff_t>(std::min(kMembers, all.size() - first))};
  }

  double time(Communicator& group, Algorithm algorithm, std::size_t bytes, int trials) {
    AllreduceOptions options;
    options.data = reinterpret_cast<std::byte*>(memory_.data());
    options.count = bytes / sizeof(float);
    options.algorithm = algorithm;
    return median_us(trials, [&] { group.allreduce(options, left()); });
  }

  AlgorithmicParts parts_;
  transport::SharedMemory* shared_memory_;
  const base::Deadline& deadline_;
  std::vector<float>& memory_;
};

double gamma_us() {
  constexpr std::size_t kCount = 16 * 1024;
  constexpr int kSums = 16;
  std::vector<float> one(kCount, 1.0F);
  std::vector<float> two(kCount, 1.0F);
  std::byte* const output = reinterpret_cast<std::byte*>(one.data());
  const std::byte* const inputs[] = {output, reinterpret_cast<const std::byte*>(two.data())};
  const collectives::Reduction max{DType::f32, ReduceOp::max};
  const double us = median_us(kLongTrials, [&] {
    for (int i = 0; i < kSums; ++i) max.run(inputs, {&output, 1}, kCount);
  });
  return us / (kSums * static_cast<double>(kCount) * sizeof(float));
}

// Values that nobody could measure are 0.
void take(double value, double least, double& constant) {
  if (value > 0) constant = std::max(value, least);
}

// Without shared memory on this host the others' value counts: they wait in agree_on_largest().
double meeting_or_nothing(Meter& meter, transport::Transport& whole, const std::vector<Rank>& neighbours) {
  try {
    return meter.meeting(whole, neighbours);
  } catch (const BackendError&) {
    return 0;
  }
}

Costs measure(const HierarchicalParts& parts, const base::Deadline& deadline, std::vector<float>& memory,
              const WaysMeasured& range) {
  transport::Transport& whole = *parts.whole.transport;
  Meter meter(parts.whole, deadline, memory);
  AlgorithmicParts flat = parts.whole;
  flat.shared_memory = nullptr;
  const auto all = make_algorithmic(flat);

  std::size_t lanes = parts.hosts.front().size();
  for (const auto& host : parts.hosts) lanes = std::min(lanes, host.size());
  std::vector<Rank> lane;
  std::vector<Rank> neighbours;
  for (const auto& host : parts.hosts) {
    const auto self = std::find(host.begin(), host.end(), whole.rank());
    if (self == host.end()) continue;
    neighbours = host;
    const auto local = static_cast<std::size_t>(self - host.begin());
    for (const auto& other : parts.hosts) {
      if (local < lanes) lane.push_back(other[local]);
    }
  }
  const Seen network = meter.links(whole, lane, static_cast<int>(lanes));
  all->barrier(meter.left());
  const Seen host = meter.links(whole, neighbours, 1);
  const double sync = meeting_or_nothing(meter, whole, neighbours);
  const Seen& seen = lane.size() > 1 ? network : host;
  double values[] = {network.alpha_us, network.beta_us,   host.alpha_us,       host.beta_us,
                     gamma_us(),       seen.whole_factor, seen.partner_factor, sync};
  agree_on_largest(*all, memory, values, meter.left());

  CostConstants constants = fixed_costs();
  constants.measured = true;
  take(values[0], 0.01, constants.network.alpha_us);
  take(values[1], 1e-6, constants.network.beta_us);
  take(values[2], 0.01, constants.host.alpha_us);
  take(values[3], 1e-6, constants.host.beta_us);
  take(values[4], 1e-6, constants.gamma_us);
  take(values[5], 1.0, constants.whole_factor);
  take(values[6], 1.0, constants.partner_factor);
  take(values[7], 0.01, constants.sync_us);
  return {constants, measure_ways(parts, constants, deadline, memory, range)};
}

}  // namespace

Costs measure_costs(const HierarchicalParts& parts, std::vector<float>& memory, const WaysMeasured& range) {
  try {
    return measure(parts, base::Deadline(parts.whole.timeout), memory, range);
  } catch (const TimeoutError& error) {  // its text has the time that was left for the last step
    throw TimeoutError(error.missing(),
                       "measuring what the links cost (KOLO_COST_MODEL=measured) was not complete after " +
                           std::to_string(parts.whole.timeout.count()) + " ms (KOLO_TIMEOUT): " + error.what());
  }
}

}  // namespace kolo::comm
