#include "cuda/memory.h"

#include <atomic>
#include <new>
#include <string>
#include <utility>

namespace kolo::cuda {
namespace {

std::string asked(const char* call, std::size_t bytes) {
  return std::string(call) + " of " + std::to_string(bytes) + " bytes";
}

}  // namespace

DeviceBuffer::DeviceBuffer(RuntimePtr runtime, int device, std::size_t bytes)
    : runtime_(std::move(runtime)), device_(device), size_(bytes) {
  if (bytes == 0) return;
  const DeviceGuard guard(*runtime_, device_);
  void* memory = nullptr;
  const Status status = runtime_->api().allocate(&memory, bytes);
  try {
    runtime_->check(status, asked("cudaMalloc", bytes) + " on device " + std::to_string(device));
  } catch (const BackendError& error) {
    if (status == kOutOfMemory) throw NoDeviceMemory(error.what());
    throw;
  }
  data_ = static_cast<std::byte*>(memory);
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) release(*runtime_, device_, [this](const RuntimeApi& api) { return api.release(data_); });
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : runtime_(std::move(other.runtime_)),
      device_(other.device_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

PinnedBuffer::PinnedBuffer(RuntimePtr runtime, int device, std::size_t bytes)
    : runtime_(std::move(runtime)), device_(device), size_(bytes) {
  if (bytes == 0) return;
  const DeviceGuard guard(*runtime_, device_);
  void* memory = nullptr;
  runtime_->check(runtime_->api().allocate_pinned(&memory, bytes, kHostAllocPortable), asked("cudaHostAlloc", bytes));
  data_ = static_cast<std::byte*>(memory);
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr) {
    release(*runtime_, device_, [this](const RuntimeApi& api) { return api.release_pinned(data_); });
  }
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept
    : runtime_(std::move(other.runtime_)),
      device_(other.device_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

HostWord::HostWord(RuntimePtr runtime, int device) : memory_(std::move(runtime), device, sizeof(std::uint32_t)) {
  new (memory_.data().data()) std::uint32_t(0);
}

void HostWord::set() noexcept { std::atomic_ref(*reinterpret_cast<std::uint32_t*>(memory_.data().data())).store(1); }

const std::uint32_t* HostWord::address() const noexcept {
  return reinterpret_cast<const std::uint32_t*>(memory_.data().data());
}

PageLock::PageLock(RuntimePtr runtime, int device, std::span<std::byte> memory)
    : runtime_(std::move(runtime)), device_(device), memory_(memory.empty() ? nullptr : memory.data()) {
  if (memory_ == nullptr) return;
  const DeviceGuard guard(*runtime_, device_);
  runtime_->check(runtime_->api().register_host(memory_, memory.size(), kHostRegisterPortable),
                  asked("cudaHostRegister", memory.size()));
}

PageLock::~PageLock() {
  if (memory_ != nullptr) {
    release(*runtime_, device_, [this](const RuntimeApi& api) { return api.unregister_host(memory_); });
  }
}

void copy(const Runtime& runtime, void* to, const void* from, std::size_t bytes, Stream stream) {
  if (bytes == 0) return;
  const DeviceGuard guard(runtime, stream.device);
  runtime.check(runtime.api().copy(to, from, bytes, CopyKind::by_address, stream.handle),
                asked("cudaMemcpyAsync", bytes));
}

void fill_zero(const Runtime& runtime, void* memory, std::size_t bytes, Stream stream) {
  if (bytes == 0) return;
  const DeviceGuard guard(runtime, stream.device);
  runtime.check(runtime.api().fill(memory, 0, bytes, stream.handle), asked("cudaMemsetAsync", bytes));
}

}  // namespace kolo::cuda
