#include "gpu_clock.h"

#include <ATen/Functions.h>
#include <c10/core/Event.h>

#include <algorithm>

namespace kolo::bench {
namespace {

constexpr std::int64_t kFlushedBytes = std::int64_t{1} << 30;  // many times the largest cache there is
constexpr int kWarmUp = 2;

double time_once(const Way& way, const c10::Stream& stream, at::Tensor& flushed) {
  if (way.renew) way.renew();
  flushed.fill_(1);
  c10::Event begin(stream.device_type(), c10::EventFlag::BACKEND_DEFAULT);
  c10::Event end(stream.device_type(), c10::EventFlag::BACKEND_DEFAULT);
  begin.record(stream);
  way.body();
  end.record(stream);
  end.synchronize();
  return 1000 * begin.elapsedTime(end);
}

Timing summary(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double fraction) {
    return values[static_cast<std::size_t>(fraction * static_cast<double>(values.size() - 1) + 0.5)];
  };
  return {at(0.5), at(0.1), at(0.9)};
}

}  // namespace

std::vector<Timing> time_in_turns(const std::vector<Way>& ways, const c10::Stream& stream, int rounds) {
  at::Tensor flushed = at::empty({kFlushedBytes}, at::TensorOptions().device(stream.device()).dtype(at::kByte));
  std::vector<std::vector<double>> all(ways.size());
  for (int round = -kWarmUp; round < rounds; ++round) {
    for (std::size_t k = 0; k < ways.size(); ++k) {
      const std::size_t i = (round % 2 == 0) ? k : ways.size() - 1 - k;
      const double taken = time_once(ways[i], stream, flushed);
      if (round >= 0) all[i].push_back(taken);
    }
  }
  std::vector<Timing> timings;
  for (auto& values : all) timings.push_back(summary(std::move(values)));
  return timings;
}

void print_timings(const std::vector<Way>& ways, const std::vector<Timing>& timings, double copy_gbps) {
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const double gbps = ways[i].bytes / timings[i].median / 1000;
    std::printf(
        "{\"what\": \"%s\", \"variant\": \"%s\", \"us\": %.2f, \"us_p10\": %.2f, \"us_p90\": %.2f, \"bytes\": %.0f, "
        "\"gbps\": %.1f, \"of_copy\": %.3f}\n",
        ways[i].what.c_str(), ways[i].variant.c_str(), timings[i].median, timings[i].p10, timings[i].p90, ways[i].bytes,
        gbps, gbps / copy_gbps);
  }
  std::fflush(stdout);
}

}  // namespace kolo::bench
