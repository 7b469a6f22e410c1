#pragma once
// A registered buffer that no other rank can reach: plain aligned memory, for groups without shared memory.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "comm/validate.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"

namespace kolo::comm {

class PrivateBuffer final : public RegisteredBuffer {
 public:
  explicit PrivateBuffer(std::size_t bytes)
      : memory_(static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes, 1), kAlignment))), bytes_(bytes) {
    std::fill_n(memory_.get(), bytes, std::byte{0});
  }
  [[nodiscard]] std::span<std::byte> data() noexcept override { return {memory_.get(), bytes_}; }

 private:
  static constexpr std::align_val_t kAlignment{4096};  // a page: see Communicator::allocate()
  struct Free {
    void operator()(std::byte* memory) const noexcept { ::operator delete(memory, kAlignment); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t bytes_;
};

inline std::vector<std::unique_ptr<RegisteredBuffer>> make_private_buffers(std::span<const std::size_t> sizes) {
  validate_sizes(sizes);
  std::vector<std::unique_ptr<RegisteredBuffer>> buffers;
  for (const std::size_t size : sizes) {
    try {
      buffers.push_back(std::make_unique<PrivateBuffer>(size));
    } catch (const std::bad_alloc&) {
      throw BackendError("allocate: no memory for a buffer of " + std::to_string(size) + " bytes");
    }
  }
  return buffers;
}

}  // namespace kolo::comm
