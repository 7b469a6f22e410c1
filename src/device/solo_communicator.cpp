#include "device/solo_communicator.h"

#include <thread>
#include <utility>

#include "base/deadline.h"
#include "cuda/memory.h"
#include "cuda/stream.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"

namespace kolo::device {
namespace {

class Nothing final : public Operation {
 public:
  bool advance() override { return true; }
  [[nodiscard]] std::vector<Rank> waiting_for() const override { return {}; }
};

class SoloBuffer final : public RegisteredBuffer {
 public:
  explicit SoloBuffer(cuda::DeviceBuffer buffer) : buffer_(std::move(buffer)) {}
  [[nodiscard]] std::span<std::byte> data() noexcept override { return {buffer_.data(), buffer_.size()}; }

 private:
  cuda::DeviceBuffer buffer_;
};

class SoloCommunicator final : public Communicator {
 public:
  SoloCommunicator(const cuda::RuntimePtr& runtime, int device)
      : runtime_(runtime), device_(device), clearing_(runtime, device) {}

  [[nodiscard]] Rank rank() const noexcept override { return 0; }
  [[nodiscard]] int size() const noexcept override { return 1; }

  [[nodiscard]] std::unique_ptr<Operation> start(const AllreduceOptions& options) override {
    if (options.prescale != 1.0 || options.postscale != 1.0) {
      throw UsageError("allreduce on a device in a world of one rank: prescale and postscale must be 1");
    }
    return std::make_unique<Nothing>();
  }
  [[nodiscard]] std::unique_ptr<Operation> start(const BroadcastOptions&) override {
    return std::make_unique<Nothing>();
  }
  [[nodiscard]] std::unique_ptr<Operation> start(const AllgatherOptions& options) override {
    return copy(options.output, options.input, options.counts.front(), options.stream);
  }
  [[nodiscard]] std::unique_ptr<Operation> start(const ReduceScatterOptions& options) override {
    return copy(options.output, options.input, options.counts.front() * size_of(options.dtype), options.stream);
  }
  [[nodiscard]] std::unique_ptr<Operation> start_barrier() override { return std::make_unique<Nothing>(); }

  [[nodiscard]] std::vector<std::unique_ptr<RegisteredBuffer>> allocate(std::span<const std::size_t> sizes,
                                                                        std::chrono::milliseconds timeout) override {
    std::vector<std::unique_ptr<RegisteredBuffer>> buffers;
    try {
      for (const std::size_t bytes : sizes) {
        buffers.push_back(std::make_unique<SoloBuffer>(cuda::DeviceBuffer(runtime_, device_, bytes)));
        cuda::fill_zero(*runtime_, buffers.back()->data().data(), bytes, clearing_.view());
      }
      wait_until_clear(timeout);
    } catch (...) {
      cuda::release_after(clearing_, std::move(buffers));
      throw;
    }
    return buffers;
  }
  [[nodiscard]] Choice explain(const AllreduceOptions&) const override {
    return {Algorithm::automatic, "a group of one rank: nothing to exchange", 0};
  }
  void wait_for_activity(std::chrono::microseconds at_most) override { std::this_thread::sleep_for(at_most); }

 private:
  void wait_until_clear(std::chrono::milliseconds timeout) {
    const base::Deadline deadline(timeout);
    while (!clearing_.idle()) {
      if (deadline.passed()) throw TimeoutError({}, "allocate: timeout: the device has not cleared new memory");
      wait_for_activity(std::chrono::microseconds(10));
    }
  }
  std::unique_ptr<Operation> copy(void* to, const void* from, std::size_t bytes, Stream stream) {
    if (to != from) cuda::copy(*runtime_, to, from, bytes, stream);
    return std::make_unique<Nothing>();
  }

  cuda::RuntimePtr runtime_;
  int device_;
  cuda::OwnStream clearing_;
};

}  // namespace

std::unique_ptr<Communicator> make_solo(const cuda::RuntimePtr& runtime, int device) {
  return std::make_unique<SoloCommunicator>(runtime, device);
}

}  // namespace kolo::device
