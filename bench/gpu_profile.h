#pragma once
// What steps of training take, and what the device does in them, counted by torch's profiler.
#include <c10/core/Device.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gpu_idle.h"

namespace kolo::bench {

struct Counted {
  double number = 0;
  double us = 0;  // of the device
};

// A step's.
struct DeviceWork {
  Counted kernels, copies, fills;          // kernels: kolo's among them
  std::map<std::string, Counted> of_kolo;  // kernels by name
  std::vector<Gap> gaps;                   // when it did nothing
};

// Of `steps` steps, which are run once each. Waits for the device.
[[nodiscard]] DeviceWork profile(const c10::Device& device, int steps, const std::function<void()>& step);

// Of the host and the device together, for `steps` steps behind each other, the host ahead of the device.
[[nodiscard]] double milliseconds_a_step(const c10::Device& device, int steps, const std::function<void()>& step);

// Until the device has done all that was enqueued in any stream.
void wait_for_all(const c10::Device& device);

// "kernels": 330.00, ..., "kolo_kernels": {"kolo_pack": 9.0, ...}, "idle": {...}: members of a JSON object, without its
// braces.
[[nodiscard]] std::string json_of(const DeviceWork& work);

}  // namespace kolo::bench
