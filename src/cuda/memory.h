#pragma once
// Memory of a device, and memory of the host that devices reach by themselves.
#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/runtime.h"
#include "kolo/error.h"
#include "kolo/types.h"

namespace kolo::cuda {

// The device has no more memory. Where it was asked of a group (nccl/device_buffer.h), all ranks of that throw it.
class NoDeviceMemory : public BackendError {
 public:
  using BackendError::BackendError;
};

// Not initialised, 256-byte aligned. Its owner sees to it that the device is done with it when it goes: releasing
// waits for the whole device. Throws BackendError, or NoDeviceMemory, with the bytes that were asked for.
class DeviceBuffer {
 public:
  DeviceBuffer(RuntimePtr runtime, int device, std::size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }  // not for the host to read
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] int device() const noexcept { return device_; }

 private:
  RuntimePtr runtime_;
  int device_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Page-locked, for every device. As above. `device`: in whose context that is done, because each call of the runtime's
// makes one, of some hundred MB, on the device that is current.
class PinnedBuffer {
 public:
  PinnedBuffer(RuntimePtr runtime, int device, std::size_t bytes);
  ~PinnedBuffer();
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&&) = delete;

  [[nodiscard]] std::span<std::byte> data() const noexcept { return {data_, size_}; }

 private:
  RuntimePtr runtime_;
  int device_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// One word in such memory, which kernels read while the host may set it: 0 until then. As above.
class HostWord {
 public:
  HostWord(RuntimePtr runtime, int device);
  void set() noexcept;  // thread-safe
  [[nodiscard]] const std::uint32_t* address() const noexcept;

 private:
  PinnedBuffer memory_;
};

// Page-locks memory that somebody else has allocated, and that shares no page with other memory that is locked like
// this. The memory outlives it; and as above.
class PageLock {
 public:
  PageLock(RuntimePtr runtime, int device, std::span<std::byte> memory);
  ~PageLock();
  PageLock(const PageLock&) = delete;
  PageLock& operator=(const PageLock&) = delete;

 private:
  RuntimePtr runtime_;
  int device_;
  void* memory_;  // null: no bytes
};

// Enqueued in `stream`; both sides must stay until that has passed. The kind is found out by the addresses.
void copy(const Runtime& runtime, void* to, const void* from, std::size_t bytes, Stream stream);
void fill_zero(const Runtime& runtime, void* memory, std::size_t bytes, Stream stream);

}  // namespace kolo::cuda
