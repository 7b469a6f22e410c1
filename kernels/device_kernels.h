#pragma once
// The kernels by name, and each as a function of the host: the same code for every thread, one thread after the other.
// For devices that are none (tests); far too slow for anything else.
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace kolo::kernels {

// Memory that a launch reads, or also writes.
struct Touched {
  const void* memory = nullptr;
  std::size_t bytes = 0;
  bool written = false;
};

struct DeviceKernel {
  std::string_view name;       // in the image
  std::size_t argument_bytes;  // of the one struct that it takes
  // Throws std::logic_error where a device would fault on a misaligned access.
  void (*run_on_host)(const void* arguments, unsigned blocks, unsigned threads);
  // Reads the tables that the arguments point to.
  std::vector<Touched> (*touches)(const void* arguments);
};

[[nodiscard]] std::span<const DeviceKernel> device_kernels() noexcept;

}  // namespace kolo::kernels
