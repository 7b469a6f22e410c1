// kolo perf: times of collectives beside MPI's, in the columns of nccl-tests.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "comm/make.h"
#include "commands.h"
#include "kolo/context.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "perf_measure.h"
#include "perf_options.h"

namespace kolo::tools {
namespace {

struct PerfArguments {
  PerfOptions options;
  std::string dtype = "f32";
  std::string op = "sum";
  std::string algorithm = "auto";
  std::string buffer = "registered";
  std::string baseline = "none";
  std::string json;
};

class Report {
 public:
  Report(const PerfArguments& arguments, const Placement& placement, std::ofstream json)
      : arguments_(arguments), placement_(placement), speaks_(placement.rank == 0), json_(std::move(json)) {}

  void head(double copy_rate) const {
    if (!speaks_) return;
    if (placement_.size == 1) std::printf("# one rank: nothing is exchanged; kolo run -n 2 -- ... starts two\n");
    std::printf("# %s, %s, %s buffers; algbw and busbw in GB/s", arguments_.options.operation.c_str(),
                describe(placement_).c_str(), arguments_.buffer.c_str());
    if (copy_rate > 0) std::printf("; non-temporal copy by all ranks: %.1f GB/s of traffic", copy_rate);
    std::printf("\n#%11s %12s %6s %8s %6s %9s %11s %11s %8s %8s %7s %7s\n", "bytes", "count", "type", "redop", "impl",
                "algorithm", "p50 us", "p99 us", "algbw", "busbw", "#wrong", "ratio");
    std::fflush(stdout);
  }

  // `base`: the p50 that the ratio is taken to; 0: none.
  void row(const Measured& measured, double base) {
    wrong_ += measured.wrong;
    if (!speaks_) return;
    const bool reduces = arguments_.options.operation.find("reduce") != std::string::npos;
    std::printf("%12zu %12zu %6s %8s %6s %9s %11.2f %11.2f %8.3f %8.3f %7zu", measured.bytes, measured.count,
                arguments_.dtype.c_str(), reduces ? arguments_.op.c_str() : "none", measured.name.c_str(),
                measured.algorithm.c_str(), measured.p50_us, measured.p99_us, measured.algbw, measured.busbw,
                measured.wrong);
    if (base > 0) std::printf(" %7.2f", base / measured.p50_us);
    std::printf("\n");
    std::fflush(stdout);
    write_json(measured, base);
  }

  [[nodiscard]] std::size_t wrong() const { return wrong_; }

 private:
  void write_json(const Measured& measured, double base) {
    if (!json_.is_open()) return;
    nlohmann::ordered_json line = {{"op", arguments_.options.operation},
                                   {"impl", measured.name},
                                   {"algorithm", measured.algorithm},
                                   {"dtype", arguments_.dtype},
                                   {"redop", arguments_.op},
                                   {"buffer", measured.name == "kolo" ? arguments_.buffer : "private"},
                                   {"bytes", measured.bytes},
                                   {"turn", arguments_.options.turn},
                                   {"ranks", placement_.size},
                                   {"hosts", placement_.cross_size},
                                   {"time_us_p50", measured.p50_us},
                                   {"time_us_p99", measured.p99_us},
                                   {"algbw_gbps", measured.algbw},
                                   {"busbw_gbps", measured.busbw},
                                   {"wrong", measured.wrong}};
    if (base > 0) line["speedup"] = base / measured.p50_us;
    json_ << line.dump() << std::endl;
  }

  const PerfArguments& arguments_;
  const Placement& placement_;
  bool speaks_;
  std::ofstream json_;
  std::size_t wrong_ = 0;
};

void measure_sizes(const PerfOptions& options, std::span<const Contender> contenders, Report& report) {
  const bool barrier = options.operation == "barrier";
  const std::size_t last = barrier ? options.min_bytes : options.max_bytes;
  for (std::size_t bytes = options.min_bytes;; bytes *= 2) {
    const std::vector<Measured> results = measure(options, contenders, bytes);
    const double base = results.size() > 1 ? results.back().p50_us : 0;
    for (const Measured& measured : results) report.row(measured, base);
    if (bytes == 0 || bytes > last / 2) return;
  }
}

void run_perf(PerfArguments arguments) {
  PerfOptions& options = arguments.options;
  options.dtype = parse_dtype(arguments.dtype);
  options.op = parse_reduce_op(arguments.op);
  options.registered = arguments.buffer == "registered";
  options.min_bytes = std::max(options.min_bytes, size_of(options.dtype));
  check_sizes(options);
  const Algorithm algorithm = parse_algorithm(arguments.algorithm);
  const auto context = Context::create();
  std::ofstream json = open_json(*context, arguments.json);
  Communicator& communicator = context->communicator();
  options.one_clock = can_begin_together(context->placement());
  options.limit = context->config().timeout;
  const std::size_t most = options.operation == "barrier" ? 64 : options.max_bytes;

  const std::size_t sizes[] = {most};
  std::vector<std::unique_ptr<RegisteredBuffer>> buffers;
  const bool registered = options.registered && options.operation == "allreduce";
  if (registered) buffers = communicator.allocate(sizes, context->config().timeout);
  AlignedMemory data(most);
  AlignedMemory input(options.operation == "allreduce" ? 0 : most);
  std::vector<Contender> contenders;
  RegisteredBuffer* buffer = registered ? buffers[0].get() : nullptr;
  contenders.push_back({"kolo", &communicator, buffer, buffer != nullptr ? buffer->data().data() : data.data(),
                        input.data(), algorithm});
  std::unique_ptr<Communicator> baseline;
  if (arguments.baseline == "mpi") {
    baseline = comm::make_mpi();
    contenders.push_back({"mpi", baseline.get(), nullptr, data.data(), input.data()});
  }

  Report report(arguments, context->placement(), std::move(json));
  constexpr std::size_t kCopied = std::size_t{64} << 20;
  report.head(options.max_bytes >= kCopied ? measure_copy_rate(communicator, kCopied, options.limit) : 0);
  measure_sizes(options, contenders, report);
  communicator.barrier(context->config().timeout);
  buffers.clear();
  context->shutdown();
  if (report.wrong() != 0) throw Error(std::to_string(report.wrong()) + " elements were wrong");
}

void add_collective(CLI::App& perf, const std::string& operation, const std::string& text) {
  auto arguments = std::make_shared<PerfArguments>();  // shared with the callback, which runs later
  arguments->options.operation = operation;
  CLI::App* command = perf.add_subcommand(operation, text);
  const bool reduces = operation.find("reduce") != std::string::npos;
  add_size_options(*command, arguments->options);
  const auto add = [command](const std::string& name, auto& value, const std::string& values,
                             const std::string& meaning) {
    CLI::Option* option = command->add_option(name, value, meaning)->capture_default_str();
    show_in_help(*option, values);
    return option;
  };
  add("--dtype", arguments->dtype, "TYPE", "of the elements: f32, bf16, i64, ...");
  if (reduces) add("--op", arguments->op, "NAME", "sum, average, min, max or product");
  if (operation == "allreduce") {
    add("--algorithm", arguments->algorithm, "NAME", algorithm_names());
    add_buffer_option(*command, arguments->buffer);
  }
  add("--baseline", arguments->baseline, "none|mpi", "mpi: measure MPI's own call in turns with kolo's")
      ->check(CLI::IsMember({"none", "mpi"}));
  add("--iterations", arguments->options.iterations, "N", "per size; 0: chosen by size")
      ->check(CLI::Range(0, 1000000000));
  arguments->options.turn = 8;  // a sweep compares ways of one library, and goes on one by one
  add("--turn", arguments->options.turn, "N",
      "with a baseline: iterations in a row of each; 1: each also pays for what the other left in the caches")
      ->check(CLI::Range(1, 1000000000));
  add_json_option(*command, arguments->json);
  command->footer(
      "Prints the columns of nccl-tests: algbw is bytes over the median time (p50), busbw what a link between ranks "
      "then carries,\n#wrong how many elements are not what they must be. With a baseline also ratio: the baseline's "
      "median time over that of\nthe row; in kolo's rows above 1: kolo is faster.");
  command->callback([arguments] { run_perf(*arguments); });
}

}  // namespace

CLI::App& add_perf_command(CLI::App& app) {
  CLI::App* perf = app.add_subcommand("perf", "measure collectives; start it with kolo run");
  perf->footer("As in: kolo run -n 2 -- kolo perf allreduce --max 64M --baseline mpi");
  perf->require_subcommand(1);
  add_sweep_command(*perf);
  add_collective(*perf, "allreduce", "sum (or average, minimum, maximum) over all ranks, in place");
  add_collective(*perf, "broadcast", "from rank 0 to all");
  add_collective(*perf, "allgather", "every rank's part to all; the size is that of the whole");
  add_collective(*perf, "reduce_scatter", "a part of the sum to every rank; the size is that of the whole");
  add_collective(*perf, "barrier", "how long until all have come");
  return *perf;
}

}  // namespace kolo::tools
