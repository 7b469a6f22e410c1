#pragma once
// Kernels run on the host: their bodies by name, and a table that lies in the host's memory.
#include <cstddef>
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

template <class Arguments>
void run_kernel(std::string_view name, const Arguments& arguments, const Grid& grid) {
  for (const DeviceKernel& kernel : device_kernels()) {
    if (kernel.name != name) continue;
    if (kernel.argument_bytes != sizeof(Arguments)) throw std::logic_error("other arguments");
    return kernel.run_on_host(&arguments, grid.blocks, grid.threads);
  }
  throw std::logic_error("no such kernel");
}

class HostTable {
 public:
  HostTable(const std::vector<TensorPlace>& places, std::vector<std::byte*> addresses, std::size_t chunk_elements)
      : addresses_(std::move(addresses)), chunks_(cut_chunks(places, chunk_elements)) {
    for (const TensorPlace& place : places) offsets_.push_back(place.offset);
  }
  [[nodiscard]] TableView view() const {
    return {addresses_.data(), offsets_.data(), chunks_.data(), static_cast<std::uint32_t>(offsets_.size()),
            static_cast<std::uint32_t>(chunks_.size())};
  }

 private:
  std::vector<std::byte*> addresses_;
  std::vector<std::uint64_t> offsets_;
  std::vector<Chunk> chunks_;
};

}  // namespace kolo::kernels::test
