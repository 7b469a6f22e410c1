#include "perf_measure.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/strings.h"
#include "base/trials.h"
#include "kernels/scale_copy.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "perf_data.h"
#include "perf_times.h"

namespace kolo::tools {
namespace {

using Limit = std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

// All ranks' values, each by itself, in place.
template <class T>
void combine(Communicator& communicator, std::span<T> values, DType dtype, ReduceOp op, Limit limit) {
  AllreduceOptions options;
  options.data = reinterpret_cast<std::byte*>(values.data());
  options.count = values.size();
  options.dtype = dtype;
  options.op = op;
  communicator.allreduce(options, limit);
}

std::vector<double> slowest(Communicator& communicator, std::vector<double> mine, Limit limit) {
  combine(communicator, std::span(mine), DType::f64, ReduceOp::max, limit);
  return mine;
}

// Returns on all ranks when all have called it; where they have one clock, at the same instant. Ranks leave a barrier
// as far apart as a message takes to arrive, and those that left first would then wait for the others inside of what is
// measured. See Hunold and Carpen-Amarie, "Reproducible MPI benchmarking is still not as easy as you think", IEEE TPDS
// 27 (12), 2016.
void start_together(Communicator& communicator, bool one_clock, Limit limit) {
  if (!one_clock) return communicator.barrier(limit);
  constexpr std::chrono::microseconds kLead{5};  // everybody has heard by then
  Clock::rep instant = (Clock::now() + kLead).time_since_epoch().count();
  combine(communicator, std::span(&instant, 1), DType::i64, ReduceOp::max, limit);
  const auto latest = Clock::now() + 2 * kLead;  // containers may have been given clocks of their own
  for (auto now = Clock::now(); now.time_since_epoch().count() < instant && now < latest; now = Clock::now()) {
  }
}

// One collective: writes its inputs, runs it, looks at its result.
class Trial {
 public:
  Trial(const PerfOptions& options, const Contender& contender, std::size_t bytes)
      : options_(options),
        contender_(contender),
        ranks_(static_cast<std::size_t>(contender.communicator->size())),
        rank_(static_cast<std::size_t>(contender.communicator->rank())),
        element_(size_of(options.dtype)),
        count_(bytes / element_) {
    const bool spread = options.operation == "allgather" || options.operation == "reduce_scatter";
    part_ = spread ? count_ / ranks_ : count_;
    if (spread) count_ = part_ * ranks_;
    counts_.assign(ranks_, options.operation == "allgather" ? part_ * element_ : part_);
    if (reduces()) check_exact(reduction());
  }

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t wrong() const { return wrong_; }

  // Once, with inputs that it writes before; what that took, in microseconds. Looks at the result afterwards.
  double time() {
    Communicator& communicator = *contender_.communicator;
    std::this_thread::sleep_for(rest_before(options_, count_ * element_));
    prepare(++iteration_);
    start_together(communicator, options_.one_clock, options_.limit);
    const auto start = Clock::now();
    run();
    const auto end = Clock::now();
    // Where ranks share a core, looking at the result must not delay those who are still reducing.
    communicator.barrier(options_.limit);
    wrong_ += wrong_after(iteration_);
    return microseconds(end - start);
  }

  [[nodiscard]] AllreduceOptions allreduce() const {
    AllreduceOptions options;
    options.data = contender_.data;
    options.count = count_;
    options.dtype = options_.dtype;
    options.op = options_.op;
    options.registered = contender_.buffer;
    options.algorithm = contender_.algorithm;
    return options;
  }

 private:
  void prepare(int iteration) {
    const Rank rank = contender_.communicator->rank();
    const Pattern mine = reduces() ? Pattern::operand(reduction(), count_, rank, iteration)
                                   : Pattern::input(options_.dtype, count_, rank, iteration);
    if (options_.operation == "allreduce") mine.fill({contender_.data, count_ * element_});
    if (options_.operation == "reduce_scatter") mine.fill({contender_.input, count_ * element_});
    if (options_.operation == "allgather") mine.fill({contender_.input, part_ * element_});
    if (options_.operation == "broadcast") {
      if (rank_ == 0) return mine.fill({contender_.data, count_ * element_});
      std::memset(contender_.data, 0xff, count_ * element_);
    }
  }

  void run() {
    Communicator& communicator = *contender_.communicator;
    const std::string& operation = options_.operation;
    if (operation == "allreduce") return communicator.allreduce(allreduce(), options_.limit);
    if (operation == "barrier") return communicator.barrier(options_.limit);
    if (operation == "broadcast")
      return communicator.broadcast({contender_.data, count_ * element_, 0}, options_.limit);
    if (operation == "allgather")
      return communicator.allgather({contender_.input, counts_, contender_.data}, options_.limit);
    communicator.reduce_scatter({contender_.input, counts_, contender_.data, options_.dtype, options_.op},
                                options_.limit);
  }

  [[nodiscard]] std::size_t wrong_after(int iteration) const {
    const std::span<const std::byte> data(contender_.data, count_ * element_);
    const Pattern root = Pattern::input(options_.dtype, count_, 0, iteration);
    if (options_.operation == "broadcast") return root.count_wrong(data);
    if (options_.operation == "allgather") {
      std::size_t wrong = 0;
      for (std::size_t r = 0; r < ranks_; ++r) {
        const Pattern theirs = Pattern::input(options_.dtype, part_, static_cast<Rank>(r), iteration);
        wrong += theirs.count_wrong(data.subspan(r * part_ * element_, part_ * element_));
      }
      return wrong;
    }
    const Pattern reduced = Pattern::reduced(reduction(), count_, iteration);
    if (options_.operation == "allreduce") return reduced.count_wrong(data);
    if (options_.operation == "reduce_scatter") return reduced.count_wrong(data.first(part_ * element_), rank_ * part_);
    return 0;
  }

  [[nodiscard]] bool reduces() const {
    return options_.operation == "allreduce" || options_.operation == "reduce_scatter";
  }
  [[nodiscard]] Reduction reduction() const { return {options_.dtype, options_.op, static_cast<int>(ranks_)}; }

  const PerfOptions& options_;
  const Contender& contender_;
  std::size_t ranks_;
  std::size_t rank_;
  std::size_t element_;
  std::size_t count_;  // elements of the whole
  std::size_t part_;   // elements of one rank's part
  std::vector<std::size_t> counts_;
  int iteration_ = 0;
  std::size_t wrong_ = 0;
};

constexpr int kWarmup = 3;
constexpr int kFewestTurns = 4;  // of each contender, however many in a row he asks for

int iterations_for(const PerfOptions& options, std::size_t bytes) {
  if (options.iterations > 0) return options.iterations;
  return static_cast<int>(std::clamp<std::size_t>((std::size_t{1} << 30) / std::max<std::size_t>(bytes, 1), 8, 1000));
}

double bus_factor(const std::string& operation, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (operation == "allreduce") return 2 * others;
  return operation == "broadcast" || operation == "barrier" ? 1 : others;
}

Measured summarize(const PerfOptions& options, const Trial& trial, const Contender& contender,
                   std::vector<double> times) {
  Measured result;
  Communicator& communicator = *contender.communicator;
  result.name = contender.name;
  result.algorithm = "-";
  if (options.operation == "allreduce") {
    const Choice choice = communicator.explain(trial.allreduce());
    result.algorithm = name_of(choice.algorithm);
    result.predicted_us = choice.predicted_us;
  }
  result.count = trial.count();
  result.bytes = trial.count() * size_of(options.dtype);
  times = slowest(communicator, std::move(times), options.limit);
  std::sort(times.begin(), times.end());
  result.p50_us = percentile(times, 50);
  result.p99_us = percentile(times, 99);
  result.algbw = static_cast<double>(result.bytes) / result.p50_us / 1e3;
  result.busbw = result.algbw * bus_factor(options.operation, communicator.size());
  return result;
}

// Algorithm::mpi, the last, is the baseline's, which knows no other.
constexpr auto kOfKolo = static_cast<int>(Algorithm::mpi);

}  // namespace

std::size_t total(Communicator& communicator, std::size_t mine, std::chrono::milliseconds limit) {
  auto sum = static_cast<std::int64_t>(mine);
  combine(communicator, std::span(&sum, 1), DType::i64, ReduceOp::sum, limit);
  return static_cast<std::size_t>(sum);
}

std::string describe(const Placement& placement) {
  return base::counted(static_cast<std::size_t>(placement.size), "rank") + " on " +
         base::counted(static_cast<std::size_t>(placement.cross_size), "host");
}

std::string algorithm_names() {
  std::string all;
  for (int i = 0; i < kOfKolo; ++i) all += (i == 0 ? "" : ", ") + std::string(name_of(static_cast<Algorithm>(i)));
  return all;
}

Algorithm parse_algorithm(std::string_view text) {
  for (int i = 0; i < kOfKolo; ++i) {
    if (name_of(static_cast<Algorithm>(i)) == text) return static_cast<Algorithm>(i);
  }
  throw UsageError("--algorithm: unknown algorithm '" + std::string(text) + "'; known: " + algorithm_names());
}

void check_sizes(const PerfOptions& options) {
  if (options.min_bytes <= options.max_bytes) return;
  throw UsageError("--min " + std::to_string(options.min_bytes) + " is more than --max " +
                   std::to_string(options.max_bytes));
}

bool can_begin_together(const Placement& placement) {
  return placement.cross_size == 1 && placement.size <= placement.local_cores;
}

std::chrono::microseconds rest_before(const PerfOptions& options, std::size_t bytes) {
  return options.rests ? base::rest_before_trial(bytes) : std::chrono::microseconds(0);
}

std::vector<Measured> measure(const PerfOptions& options, std::span<const Contender> contenders, std::size_t bytes) {
  const int iterations = iterations_for(options, bytes);
  const int in_a_row = std::clamp(iterations / kFewestTurns, 1, options.block);
  std::vector<Trial> trials;
  for (const Contender& contender : contenders) trials.emplace_back(options, contender, bytes);
  for (Trial& trial : trials) {
    for (int i = 0; i < std::min(iterations, kWarmup); ++i) trial.time();
  }
  std::vector<std::vector<double>> times(trials.size());
  for (int done = 0; done < iterations; done += in_a_row) {
    for (const std::size_t c : base::turns_of_trial(trials.size(), static_cast<std::uint32_t>(done / in_a_row))) {
      if (in_a_row > 1 && trials.size() > 1) trials[c].time();  // meets what the others left in the caches
      for (int i = done; i < std::min(done + in_a_row, iterations); ++i) times[c].push_back(trials[c].time());
    }
  }
  std::vector<Measured> results;
  for (std::size_t c = 0; c < trials.size(); ++c) {
    results.push_back(summarize(options, trials[c], contenders[c], std::move(times[c])));
    results.back().wrong = total(*contenders[c].communicator, trials[c].wrong(), options.limit);
  }
  return results;
}

double measure_copy_rate(Communicator& communicator, std::size_t bytes, std::chrono::milliseconds limit) {
  std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> to(bytes);
  std::vector<double> times;
  for (int i = 0; i < 8; ++i) {
    communicator.barrier(limit);
    const auto start = Clock::now();
    kernels::scale_copy(from.data(), DType::u8, to.data(), DType::u8, bytes, 1.0, /*past_caches=*/true);
    communicator.barrier(limit);
    times.push_back(microseconds(Clock::now() - start));
  }
  times = slowest(communicator, std::move(times), limit);
  std::sort(times.begin(), times.end());
  return 2.0 * static_cast<double>(bytes) * communicator.size() / percentile(times, 50) / 1e3;
}

}  // namespace kolo::tools
