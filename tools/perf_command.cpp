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

bool reduces(const std::string& operation) { return operation.find("reduce") != std::string::npos; }

class Report {
 public:
  Report(const PerfArguments& arguments, const Placement& placement, std::ofstream json)
      : arguments_(arguments), placement_(placement), speaks_(placement.rank == 0), json_(std::move(json)) {}

  void head(double copy_rate) const {
    if (!speaks_) return;
    if (placement_.size == 1)
      std::printf("# one rank: nothing is exchanged; start two ranks with kolo run -n 2 -- ...\n");
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
    std::printf("%12zu %12zu %6s %8s %6s %9s %11.2f %11.2f %8.3f %8.3f %7zu", measured.bytes, measured.count,
                arguments_.dtype.c_str(), arguments_.op.c_str(), measured.name.c_str(), measured.algorithm.c_str(),
                measured.p50_us, measured.p99_us, measured.algbw, measured.busbw, measured.wrong);
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
                                   {"block", arguments_.options.block},
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
  if (!reduces(options.operation)) arguments.op = "none";
  if (options.operation != "allreduce") arguments.buffer = "private";
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
  if (options.registered) buffers = communicator.allocate(sizes, context->config().timeout);
  AlignedMemory data(most);
  AlignedMemory input(options.operation == "allreduce" ? 0 : most);
  std::vector<Contender> contenders;
  RegisteredBuffer* buffer = options.registered ? buffers[0].get() : nullptr;
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
  if (report.wrong() != 0)
    throw Error("perf " + options.operation + ": " + std::to_string(report.wrong()) + " elements are wrong");
}

void add_collective(CLI::App& perf, const std::string& operation, const std::string& text) {
  auto arguments = std::make_shared<PerfArguments>();  // shared with the callback, which runs later
  arguments->options.operation = operation;
  CLI::App* command = perf.add_subcommand(operation, text);
  add_size_options(*command, arguments->options);
  const auto add = [command](const std::string& name, auto& value, const std::string& values,
                             const std::string& meaning) {
    CLI::Option* option = command->add_option(name, value, meaning)->capture_default_str();
    show_in_help(*option, values);
    return option;
  };
  add("--dtype", arguments->dtype, "TYPE", "element type: f32, bf16, i64, ...");
  if (reduces(operation)) add("--op", arguments->op, "NAME", "sum, average, min, max or product");
  if (operation == "allreduce") {
    add("--algorithm", arguments->algorithm, "NAME", algorithm_names());
    add_buffer_option(*command, arguments->buffer);
  }
  add("--baseline", arguments->baseline, "none|mpi", "mpi: also measure the call of MPI, alternating with kolo")
      ->check(CLI::IsMember({"none", "mpi"}));
  add("--iterations", arguments->options.iterations, "N", "for each size; 0: chosen by size")
      ->check(CLI::Range(0, 1000000000));
  arguments->options.block = 8;  // a sweep compares algorithms of one library, one iteration each
  add("--block", arguments->options.block, "N",
      "with a baseline: iterations of each in a row; 1: each also pays for data that the other left in the caches")
      ->check(CLI::Range(1, 1000000000));
  add_json_option(*command, arguments->json);
  command->footer(
      "Columns as in nccl-tests: algbw is bytes over the median time (p50), busbw the rate of a link between ranks,\n"
      "#wrong the number of elements that differ from the expected result. With a baseline also ratio:\n"
      "the median time of the baseline over that of the row. If ratio is above 1, kolo is faster.");
  command->callback([arguments] { run_perf(*arguments); });
}

}  // namespace

CLI::App& add_perf_command(CLI::App& app) {
  CLI::App* perf = app.add_subcommand("perf", "Measure collectives; start with kolo run");
  perf->footer("Example: kolo run -n 2 -- kolo perf allreduce --max 64M --baseline mpi");
  perf->require_subcommand(1);
  add_sweep_command(*perf);
  add_collective(*perf, "allreduce", "Reduction over all ranks, in place");
  add_collective(*perf, "broadcast", "Data of rank 0 to all ranks");
  add_collective(*perf, "allgather", "Parts of all ranks to every rank; the size is that of all parts");
  add_collective(*perf, "reduce_scatter", "One part of the reduction to each rank; the size is that of all parts");
  add_collective(*perf, "barrier", "Time until all ranks have called barrier");
  return *perf;
}

}  // namespace kolo::tools
