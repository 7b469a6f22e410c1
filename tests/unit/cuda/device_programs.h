#pragma once
// Small programs on the simulated device, each in two forms: one with a mistake, that must be reported whatever the
// schedule is, and its twin without, of which nothing may ever be reported.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cuda/memory.h"
#include "cuda/stream.h"
#include "kolo/error.h"
#include "support/device/simulated_device.h"

namespace kolo::test {

// What most programs need, on device 0.
struct Rig {
  explicit Rig(SimulatedDevice& simulated)
      : device(simulated), runtime(std::make_shared<const cuda::Runtime>(simulated.api())) {}
  ~Rig() { device.drain(); }  // before the memory goes

  static constexpr std::size_t kBytes = 64;
  SimulatedDevice& device;
  cuda::RuntimePtr runtime;
  cuda::DeviceBuffer x{runtime, 0, kBytes};
  cuda::DeviceBuffer y{runtime, 0, kBytes};
  cuda::PinnedBuffer pinned{runtime, 0, kBytes};
  cuda::OwnStream a{runtime, 0};
  cuda::OwnStream b{runtime, 0};
  cuda::OwnStream c{runtime, 0};
  cuda::Event event{runtime, 0};

  // later waits for what is in earlier by now.
  void order(Stream later, Stream earlier) {
    event.record(earlier);
    cuda::wait_for(*runtime, later, event);
  }
  void fill(const cuda::DeviceBuffer& buffer, Stream stream) {
    cuda::fill_zero(*runtime, buffer.data(), kBytes, stream);
  }
  void copy(void* to, const void* from, Stream stream, std::size_t bytes = kBytes) {
    cuda::copy(*runtime, to, from, bytes, stream);
  }
  // Asks until it has passed.
  void see(const cuda::Event& passing) const {
    while (!passing.passed()) {
    }
  }
};

inline constexpr std::uint64_t kSeeds = 200;

// Runs program(rig, right) under many schedules, wrong and right.
template <class Program>
void expect_reported(Fault fault, Program&& program) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (const bool right : {false, true}) {
      SimulatedDevice device({.devices = 2, .seed = seed});
      {
        Rig rig(device);
        program(rig, right);
      }
      std::set<std::string> found;
      std::string texts;
      for (const Violation& each : device.take_violations()) {
        found.insert(std::string(fault_name(each.fault)));
        texts += "\n  " + each.text;
      }
      const std::set<std::string> expected =
          right ? std::set<std::string>{} : std::set<std::string>{std::string(fault_name(fault))};
      ASSERT_EQ(found, expected) << (right ? "right" : "wrong") << ", seed " << seed << texts;
    }
  }
}

}  // namespace kolo::test
