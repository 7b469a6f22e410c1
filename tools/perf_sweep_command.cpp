// kolo perf sweep: every algorithm that can be had here, at every size, beside what the cost model says of it.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "kolo/context.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "perf_measure.h"
#include "perf_options.h"

namespace kolo::tools {
namespace {

struct SweepArguments {
  PerfOptions options{.max_bytes = std::size_t{64} << 20};
  std::string buffer = "registered";
  double seconds = 2;  // for each size
  std::string json;
};

constexpr Algorithm kAlgorithms[] = {Algorithm::direct,
                                     Algorithm::ring,
                                     Algorithm::tree,
                                     Algorithm::halving_doubling,
                                     Algorithm::recursive_doubling,
                                     Algorithm::hierarchical};

std::vector<Algorithm> available(const Communicator& communicator) {
  std::vector<Algorithm> found;
  for (const Algorithm algorithm : kAlgorithms) {
    AllreduceOptions options;
    options.algorithm = algorithm;
    try {
      (void)communicator.explain(options);
      found.push_back(algorithm);
    } catch (const UsageError&) {  // cannot be had here: not swept
    }
  }
  return found;
}

// One size.
struct Line {
  std::size_t bytes = 0;
  std::vector<Measured> measured;  // one an algorithm
  std::size_t chosen = 0;
  std::size_t best = 0;
  [[nodiscard]] double ratio() const { return measured[chosen].p50_us / measured[best].p50_us; }
};

class Table {
 public:
  Table(const SweepArguments& arguments, const Placement& placement, std::vector<Algorithm> algorithms,
        std::ofstream json)
      : placement_(placement),
        algorithms_(std::move(algorithms)),
        buffer_(arguments.buffer),
        speaks_(placement.rank == 0),
        json_(std::move(json)) {}

  void head() const {
    if (!speaks_) return;
    std::printf(
        "# allreduce, %s, %s buffers; p50 in us, in brackets the prediction of the cost model; "
        "-: skipped, far slower at the previous size\n",
        describe(placement_).c_str(), buffer_.c_str());
    std::printf("#%9s", "bytes");
    for (const Algorithm algorithm : algorithms_) std::printf(" %22s", std::string(name_of(algorithm)).c_str());
    std::printf(" %18s %18s %6s\n", "choice", "best", "ratio");
    std::fflush(stdout);
  }

  void row(const Line& line) {
    if (line.ratio() > worst_) {
      worst_ = line.ratio();
      worst_bytes_ = line.bytes;
    }
    for (const Measured& measured : line.measured) wrong_ += measured.wrong;
    if (!speaks_) return;
    std::printf("%10zu", line.bytes);
    for (const Algorithm algorithm : algorithms_) {
      char cell[64] = "-";
      for (const Measured& one : line.measured) {
        if (one.algorithm != name_of(algorithm)) continue;
        std::snprintf(cell, sizeof(cell), "%.1f (%.1f)", one.p50_us, one.predicted_us);
      }
      std::printf(" %22s", cell);
    }
    std::printf(" %18s %18s %6.3f\n", line.measured[line.chosen].algorithm.c_str(),
                line.measured[line.best].algorithm.c_str(), line.ratio());
    std::fflush(stdout);
    write_json(line);
  }

  void foot(const std::string& constants) const {
    if (!speaks_) return;
    if (worst_bytes_ == 0) {
      std::printf("# the choice is the best at every size");
    } else {
      std::printf("# worst choice: %.3f of the best, at %zu bytes", worst_, worst_bytes_);
    }
    std::printf("; %zu elements wrong\n# %s\n", wrong_, constants.c_str());
  }
  [[nodiscard]] std::size_t wrong() const { return wrong_; }

 private:
  void write_json(const Line& line) {
    if (!json_.is_open()) return;
    for (std::size_t i = 0; i < line.measured.size(); ++i) {
      const Measured& one = line.measured[i];
      json_ << nlohmann::ordered_json{{"op", "sweep"},
                                      {"algorithm", one.algorithm},
                                      {"buffer", buffer_},
                                      {"bytes", line.bytes},
                                      {"ranks", placement_.size},
                                      {"hosts", placement_.cross_size},
                                      {"time_us_p50", one.p50_us},
                                      {"time_us_p99", one.p99_us},
                                      {"predicted_us", one.predicted_us},
                                      {"chosen", i == line.chosen},
                                      {"best", i == line.best},
                                      {"wrong", one.wrong}}
                   .dump()
            << std::endl;
    }
  }

  const Placement& placement_;
  std::vector<Algorithm> algorithms_;
  std::string buffer_;
  bool speaks_;
  std::ofstream json_;
  double worst_ = 1;
  std::size_t worst_bytes_ = 0;
  std::size_t wrong_ = 0;
};

std::string_view choice(const PerfOptions& options, const Contender& contender, std::size_t bytes) {
  AllreduceOptions automatic;
  automatic.count = bytes / size_of(options.dtype);
  automatic.dtype = options.dtype;
  automatic.op = options.op;
  automatic.registered = contender.buffer;
  return name_of(contender.communicator->explain(automatic).algorithm);
}

// Leaves out whoever was so slow at the last size that he will not be the best at the next, which is twice as long,
// unless he is to be chosen.
void leave_behind(const PerfOptions& options, const Line& last, std::vector<Contender>& contenders) {
  constexpr std::size_t kFromBytes = std::size_t{1} << 20;  // below, it costs nothing to look
  constexpr double kHopeless = 2.5;
  if (last.bytes < kFromBytes) return;
  const std::string_view chosen = choice(options, contenders.front(), 2 * last.bytes);
  std::vector<Contender> stay;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    const bool hopeless = last.measured[i].p50_us > kHopeless * last.measured[last.best].p50_us;
    if (!hopeless || last.measured[i].algorithm == chosen) stay.push_back(contenders[i]);
  }
  contenders = std::move(stay);
}

// The best of several medians is the luckiest too. What seems to beat the choice is measured once more, beside the
// choice alone, and the second time counts.
void measure_again(const PerfOptions& options, std::span<const Contender> contenders, Line& line) {
  constexpr double kWorthALook = 1.05;
  std::vector<std::size_t> rivals{line.chosen};
  std::vector<Contender> again{contenders[line.chosen]};
  for (std::size_t i = 0; i < line.measured.size(); ++i) {
    if (line.measured[line.chosen].p50_us <= kWorthALook * line.measured[i].p50_us) continue;
    rivals.push_back(i);
    again.push_back(contenders[i]);
  }
  if (rivals.size() == 1) return;
  std::vector<Measured> second = measure(options, again, line.bytes);
  line.best = line.chosen;
  for (std::size_t k = 0; k < rivals.size(); ++k) {
    second[k].wrong += line.measured[rivals[k]].wrong;
    line.measured[rivals[k]] = std::move(second[k]);
    if (line.measured[rivals[k]].p50_us < line.measured[line.best].p50_us) line.best = rivals[k];
  }
}

Line measure_line(const PerfOptions& options, std::span<const Contender> contenders, std::size_t bytes) {
  Line line;
  line.bytes = bytes;
  line.measured = measure(options, contenders, bytes);
  const std::string_view chosen = choice(options, contenders.front(), bytes);
  for (std::size_t i = 0; i < line.measured.size(); ++i) {
    if (line.measured[i].algorithm == chosen) line.chosen = i;
    if (line.measured[i].p50_us < line.measured[line.best].p50_us) line.best = i;
  }
  measure_again(options, contenders, line);
  return line;
}

// So many that a size takes as long as it may; from times that all ranks agree on.
int iterations_within(double seconds, const PerfOptions& options, const Line& last) {
  double once = 0;
  for (const Measured& measured : last.measured) {
    once += 2 * measured.p50_us;  // the next size takes about twice as long
    once += static_cast<double>(rest_before(options, 2 * last.bytes).count());
  }
  return static_cast<int>(std::clamp(seconds * 1e6 / once, 5.0, 500.0));
}

void run_sweep(SweepArguments arguments) {
  PerfOptions& options = arguments.options;
  check_sizes(options);
  if (std::isnan(arguments.seconds)) throw UsageError("--seconds: not a number");  // in any range, says CLI11
  const auto context = Context::create();
  if (context->size() == 1)
    throw UsageError("perf sweep: one rank has no choice of algorithms; start two with kolo run -n 2 -- ...");
  options.rests = context->placement().cross_size > 1;
  options.one_clock = can_begin_together(context->placement());
  options.limit = context->config().timeout;
  std::ofstream json = open_json(*context, arguments.json);
  Communicator& communicator = context->communicator();
  const std::size_t most = options.max_bytes;
  std::vector<std::unique_ptr<RegisteredBuffer>> buffers;
  if (arguments.buffer == "registered") buffers = communicator.allocate(std::span(&most, 1), context->config().timeout);
  AlignedMemory data(buffers.empty() ? most : 0);
  const std::vector<Algorithm> algorithms = available(communicator);
  std::vector<Contender> contenders;
  for (const Algorithm algorithm : algorithms) {
    RegisteredBuffer* buffer = buffers.empty() ? nullptr : buffers.front().get();
    contenders.push_back(
        {"kolo", &communicator, buffer, buffer != nullptr ? buffer->data().data() : data.data(), nullptr, algorithm});
  }
  Table table(arguments, context->placement(), algorithms, std::move(json));
  table.head();
  const bool chosen_iterations = options.iterations > 0;
  if (!chosen_iterations) options.iterations = 200;
  for (std::size_t bytes = std::max(options.min_bytes, size_of(options.dtype)); bytes <= most; bytes *= 2) {
    const Line line = measure_line(options, contenders, bytes);
    table.row(line);
    leave_behind(options, line, contenders);
    if (!chosen_iterations) options.iterations = iterations_within(arguments.seconds, options, line);
  }
  table.foot(communicator.explain({}).reason);
  communicator.barrier(context->config().timeout);
  buffers.clear();
  context->shutdown();
  if (table.wrong() != 0) throw Error("perf sweep: " + std::to_string(table.wrong()) + " elements are wrong");
}

}  // namespace

void add_sweep_command(CLI::App& perf) {
  auto arguments = std::make_shared<SweepArguments>();  // shared with the callback, which runs later
  CLI::App* command =
      perf.add_subcommand("sweep", "allreduce by every available algorithm, compared with the cost model");
  add_size_options(*command, arguments->options);
  add_buffer_option(*command, arguments->buffer);
  CLI::Option* seconds = command->add_option("--seconds", arguments->seconds, "approximate time for each size");
  seconds->check(CLI::Range(0.001, 86400.0))->capture_default_str();
  show_in_help(*seconds, "S");
  CLI::Option* iterations = command->add_option("--iterations", arguments->options.iterations,
                                                "for each size; 0: as many as fit into --seconds");
  iterations->check(CLI::Range(0, 1000000000))->capture_default_str();
  show_in_help(*iterations, "N");
  add_json_option(*command, arguments->json);
  command->footer("ratio: median time (p50) of the chosen algorithm over that of the best.");
  command->callback([arguments] { run_sweep(*arguments); });
}

}  // namespace kolo::tools
