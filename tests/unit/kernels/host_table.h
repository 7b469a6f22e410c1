#pragma once
// Kernels by name, and a table that the host fills. Where they run is whoever's who defines run(): on the host, one
// thread after the other (run_on_host.cpp), or on a GPU (tests/gpu/run_on_gpu.cpp), the same cases in both places. All
// memory that is handed to a kernel comes from std::pmr's default resource: the heap, or memory that both sides reach.
#include <cstddef>
#include <memory_resource>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "kernels/device_kernels.h"
#include "kernels/table_layout.h"

namespace kolo::kernels::test {

struct Grid {
  unsigned blocks = 1;
  unsigned threads = 1;
};

// To its end. Throws what went wrong.
void run(const DeviceKernel& kernel, const void* arguments, const Grid& grid);

// One value that kernels reach.
template <class T>
class KernelValue {
 public:
  explicit KernelValue(const T& value = {}) : memory_(1, value) {}
  [[nodiscard]] T* get() noexcept { return memory_.data(); }
  T& operator*() noexcept { return memory_.front(); }
  T* operator->() noexcept { return get(); }

 private:
  std::pmr::vector<T> memory_;
};

template <class Arguments>
void run_kernel(std::string_view name, const Arguments& arguments, const Grid& grid) {
  for (const DeviceKernel& kernel : device_kernels()) {
    if (kernel.name != name) continue;
    if (kernel.argument_bytes != sizeof(Arguments)) throw std::logic_error("other arguments");
    return run(kernel, &arguments, grid);
  }
  throw std::logic_error("no such kernel");
}

class HostTable {
 public:
  HostTable(const std::vector<TensorPlace>& places, const std::vector<std::byte*>& addresses,
            std::size_t chunk_elements)
      : addresses_(addresses.begin(), addresses.end()) {
    for (const TensorPlace& place : places) offsets_.push_back(place.offset);
    for (const Chunk& chunk : cut_chunks(places, chunk_elements)) chunks_.push_back(chunk);
  }
  [[nodiscard]] TableView view() const {
    return {addresses_.data(), offsets_.data(), chunks_.data(), static_cast<std::uint32_t>(offsets_.size()),
            static_cast<std::uint32_t>(chunks_.size())};
  }

 private:
  std::pmr::vector<std::byte*> addresses_;
  std::pmr::vector<std::uint64_t> offsets_;
  std::pmr::vector<Chunk> chunks_;
};

}  // namespace kolo::kernels::test
