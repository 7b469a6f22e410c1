#include "gpu_profile.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <kineto/ActivityType.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <chrono>
#include <cstdio>
#include <utility>

namespace kolo::bench {
namespace {

std::string member(const std::string& name, double value) {
  char text[96];
  std::snprintf(text, sizeof text, "\"%s\": %.2f", name.c_str(), value);
  return text;
}

}  // namespace

void wait_for_all(const c10::Device& device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeDevice(device.index());
}

double milliseconds_a_step(const c10::Device& device, int steps, const std::function<void()>& step) {
  wait_for_all(device);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) step();
  wait_for_all(device);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() / steps;
}

DeviceWork profile(const c10::Device& device, int steps, const std::function<void()>& step) {
  using namespace torch::autograd::profiler;  // NOLINT: torch's names for a profiler of its own
  using torch::profiler::impl::ActivityType;
  wait_for_all(device);
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  const std::set<ActivityType> activities{ActivityType::CPU, ActivityType::CUDA};
  prepareProfiler(config, activities);
  enableProfiler(config, activities);
  for (int i = 0; i < steps; ++i) step();
  wait_for_all(device);
  const auto result = disableProfiler();
  DeviceWork work;
  std::vector<Span> spans;
  const double one = 1.0 / steps;
  for (const KinetoEvent& event : result->events()) {
    const auto add = [&](Counted& to) {
      to.number += one;
      to.us += one * static_cast<double>(event.durationNs()) / 1000;
    };
    const auto type = static_cast<libkineto::ActivityType>(event.activityType());
    const bool kernel = type == libkineto::ActivityType::CONCURRENT_KERNEL;
    const bool copy = type == libkineto::ActivityType::GPU_MEMCPY;
    const bool fill = type == libkineto::ActivityType::GPU_MEMSET;
    if (!kernel && !copy && !fill) continue;
    const auto begin = static_cast<std::int64_t>(event.startNs());
    spans.push_back({begin, begin + static_cast<std::int64_t>(event.durationNs()), event.name()});
    add(kernel ? work.kernels : copy ? work.copies : work.fills);
    if (kernel && event.name().find("kolo_") != std::string::npos) add(work.of_kolo[event.name()]);
  }
  work.gaps = gaps_between(std::move(spans), steps);
  return work;
}

std::string json_of(const DeviceWork& work) {
  std::string text;
  for (const auto& [name, counted] :
       {std::pair("kernels", work.kernels), std::pair("copies", work.copies), std::pair("fills", work.fills)}) {
    text += member(name, counted.number) + ", " + member(name + std::string("_us"), counted.us) + ", ";
  }
  std::string kolo;
  for (const auto& [name, counted] : work.of_kolo) {
    kolo += (kolo.empty() ? "" : ", ") + member(name, counted.number) + ", " + member(name + "_us", counted.us);
  }
  return text + "\"kolo_kernels\": {" + kolo + "}, \"idle\": " + json_of(work.gaps);
}

}  // namespace kolo::bench
