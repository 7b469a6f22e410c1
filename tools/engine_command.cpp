// kolo perf engine: the gradients of ResNet-50 through the engine, beside one flat allreduce of the same bytes.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "commands.h"
#include "kolo/context.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "perf_engine.h"
#include "perf_measure.h"
#include "perf_options.h"

namespace kolo::tools {
namespace {

struct EngineArguments {
  int iterations = 20;
  std::string json;
};

// How long a way takes, in times of the flat one; nothing of what reduces other bytes.
std::optional<double> times_flat(const EngineResult& result, const EngineResult& flat) {
  if (result.bytes != flat.bytes) return std::nullopt;
  return result.p50_us / flat.p50_us;
}

void print_row(const EngineResult& result, std::optional<double> times) {
  char ratio[32] = "";
  if (times) std::snprintf(ratio, sizeof(ratio), "%.3f", *times);
  std::printf("%15s %12zu %12.2f %12.2f %8zu %8s %12.2f\n", result.way.c_str(), result.bytes, result.p50_us,
              result.p99_us, result.wrong, ratio, result.control_messages);
}

nlohmann::ordered_json line_of(const EngineResult& result, const Placement& placement, std::optional<double> times) {
  const double algbw = static_cast<double>(result.bytes) / result.p50_us / 1e3;
  return {{"op", "engine"},
          {"impl", "kolo"},
          {"algorithm", result.way},
          {"dtype", "f32"},
          {"bytes", result.bytes},
          {"ranks", placement.size},
          {"hosts", placement.cross_size},
          {"time_us_p50", result.p50_us},
          {"time_us_p99", result.p99_us},
          {"algbw_gbps", algbw},
          {"busbw_gbps", algbw * 2 * (placement.size - 1) / placement.size},
          {"wrong", result.wrong},
          {"times_flat", times ? nlohmann::ordered_json(*times) : nlohmann::ordered_json()},
          {"control_messages", result.control_messages}};
}

void run_engine(const EngineArguments& arguments) {
  const auto context = Context::create();
  std::ofstream json = open_json(*context, arguments.json);
  const auto results = measure_engine(*context, arguments.iterations);
  std::size_t wrong = 0;
  const bool speaks = context->rank() == 0;
  if (speaks) {
    std::printf("# 161 gradients of ResNet-50, f32, %s; flat: copied into one buffer and reduced\n",
                describe(context->placement()).c_str());
    std::printf("#%14s %12s %12s %12s %8s %8s %12s\n", "method", "bytes", "p50 us", "p99 us", "#wrong", "/ flat",
                "messages");
  }
  for (const auto& result : results) {
    wrong += result.wrong;
    if (!speaks) continue;
    const auto times = times_flat(result, results.front());
    print_row(result, times);
    if (json.is_open()) json << line_of(result, context->placement(), times).dump() << std::endl;
  }
  const double idle = measure_idle();
  if (speaks) std::printf("# idle: %.2f %% of a core\n", 100 * idle);
  context->communicator().barrier(context->config().timeout);
  context->shutdown();
  if (wrong != 0) throw Error("perf engine: " + std::to_string(wrong) + " elements are wrong");
}

}  // namespace

void add_engine_command(CLI::App& perf) {
  auto arguments = std::make_shared<EngineArguments>();  // shared with the callback, which runs later
  CLI::App* command = perf.add_subcommand(
      "engine", "161 gradients of ResNet-50, as named requests and in rounds; one request of 1 KiB");
  CLI::Option* iterations = command->add_option("--iterations", arguments->iterations, "repetitions of each method");
  iterations->check(CLI::Range(1, 1000000000))->capture_default_str();
  show_in_help(*iterations, "N");
  add_json_option(*command, arguments->json);
  command->footer("/ flat: median time (p50) over the median time of one allreduce of all gradients in one buffer.");
  command->callback([arguments] { run_engine(*arguments); });
}

}  // namespace kolo::tools
