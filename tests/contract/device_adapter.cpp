#include "contract/device_adapter.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "comm/private_buffer.h"
#include "comm/validate.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"

namespace kolo::test {
namespace {

// Memory of the host that stands for memory of the device: copied there when an operation starts, back when it is done.
class AdaptedBuffer final : public RegisteredBuffer {
 public:
  AdaptedBuffer(std::unique_ptr<RegisteredBuffer> inner) : inner_(std::move(inner)), host_(inner_->data().size()) {}
  [[nodiscard]] std::span<std::byte> data() noexcept override { return host_.data(); }
  [[nodiscard]] RegisteredBuffer& inner() noexcept { return *inner_; }
  [[nodiscard]] std::byte* on_device(const std::byte* on_host) {
    return inner_->data().data() + (on_host - host_.data().data());
  }

 private:
  std::unique_ptr<RegisteredBuffer> inner_;
  comm::PrivateBuffer host_;
};

// One piece of memory on its way to the device, or back.
class Staged {
 public:
  // `place`: where on the device; null: memory of its own.
  Staged(const cuda::RuntimePtr& runtime, Stream stream, std::size_t bytes, std::byte* place = nullptr)
      : runtime_(runtime),
        stream_(stream),
        bytes_(bytes),
        pinned_(runtime, stream.device, std::max<std::size_t>(bytes, 1)) {
    if (place == nullptr) own_.emplace(runtime, stream.device, std::max<std::size_t>(bytes, 1));
    place_ = place != nullptr ? place : own_->data();
  }
  void to_device(const std::byte* from) {
    if (bytes_ == 0) return;
    std::memcpy(pinned_.data().data(), from, bytes_);
    cuda::copy(*runtime_, place_, pinned_.data().data(), bytes_, stream_);
  }
  void begin_back() { cuda::copy(*runtime_, pinned_.data().data(), place_, bytes_, stream_); }
  void end_back(std::byte* to) const {
    if (bytes_ != 0) std::memcpy(to, pinned_.data().data(), bytes_);
  }
  [[nodiscard]] std::byte* place() const { return place_; }

 private:
  cuda::RuntimePtr runtime_;
  Stream stream_;
  std::size_t bytes_;
  cuda::PinnedBuffer pinned_;
  std::optional<cuda::DeviceBuffer> own_;
  std::byte* place_ = nullptr;
};

class AdaptedOperation final : public kolo::Operation {
 public:
  AdaptedOperation(const cuda::RuntimePtr& runtime, Stream stream)
      : runtime_(runtime), stream_(stream), back_(runtime, stream.device) {}

  Staged& stage(std::size_t bytes, std::byte* place = nullptr) {
    staged_.push_back(std::make_unique<Staged>(runtime_, stream_, bytes, place));
    return *staged_.back();
  }
  void run(std::unique_ptr<kolo::Operation> inner, Staged& result, std::byte* to) {
    inner_ = std::move(inner);
    result_ = &result;
    to_ = to;
    result.begin_back();
    back_.record(stream_);
  }
  bool advance() override {
    if (complete_) return true;
    if (!inner_->advance() || !back_.passed()) return false;
    result_->end_back(to_);
    complete_ = true;
    return true;
  }
  [[nodiscard]] std::vector<Rank> waiting_for() const override { return inner_->waiting_for(); }

 private:
  cuda::RuntimePtr runtime_;
  Stream stream_;
  cuda::Event back_;
  std::vector<std::unique_ptr<Staged>> staged_;
  std::unique_ptr<kolo::Operation> inner_;
  Staged* result_ = nullptr;
  std::byte* to_ = nullptr;
  bool complete_ = false;
};

// What is wrong goes on as it is: the communicator shall find it, before it does anything.
template <class Check>
bool refused(const Check& check) {
  try {
    check();
    return false;
  } catch (const UsageError&) {
    return true;
  }
}

std::size_t sum_of(std::span<const std::size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

}  // namespace

DeviceAdapter::DeviceAdapter(Communicator& inner, cuda::RuntimePtr runtime, int device)
    : inner_(inner),
      runtime_(std::move(runtime)),
      device_(device),
      streams_{cuda::OwnStream(runtime_, device), cuda::OwnStream(runtime_, device)} {}

bool DeviceAdapter::takes(DType dtype, ReduceOp op) const {
  const bool whole = dtype == DType::i8 || dtype == DType::u8 || dtype == DType::i32 || dtype == DType::i64;
  return dtype != DType::i16 && !(whole && op == ReduceOp::average);
}

Stream DeviceAdapter::next_stream() { return streams_[turn_++ % streams_.size()].view(); }

std::unique_ptr<kolo::Operation> DeviceAdapter::start(const AllreduceOptions& options) {
  AllreduceOptions inner = options;
  inner.stream = next_stream();
  auto* buffer = static_cast<AdaptedBuffer*>(options.registered);
  if (buffer != nullptr) inner.registered = &buffer->inner();
  if (refused([&] { comm::validate(options); })) return inner_.start(inner);
  auto operation = std::make_unique<AdaptedOperation>(runtime_, inner.stream);
  std::byte* const place = buffer != nullptr ? buffer->on_device(options.data) : nullptr;
  Staged& data = operation->stage(options.count * size_of(options.dtype), place);
  data.to_device(options.data);
  inner.data = data.place();
  operation->run(inner_.start(inner), data, options.data);
  return operation;
}

std::unique_ptr<kolo::Operation> DeviceAdapter::start(const BroadcastOptions& options) {
  BroadcastOptions inner = options;
  inner.stream = next_stream();
  if (refused([&] { comm::validate(options, size()); })) return inner_.start(inner);
  auto operation = std::make_unique<AdaptedOperation>(runtime_, inner.stream);
  Staged& data = operation->stage(options.bytes);
  data.to_device(options.data);
  inner.data = data.place();
  operation->run(inner_.start(inner), data, options.data);
  return operation;
}

std::unique_ptr<kolo::Operation> DeviceAdapter::start(const AllgatherOptions& options) {
  AllgatherOptions inner = options;
  inner.stream = next_stream();
  if (refused([&] { comm::validate(options, size(), rank()); })) return inner_.start(inner);
  auto operation = std::make_unique<AdaptedOperation>(runtime_, inner.stream);
  const std::size_t own = options.counts[static_cast<std::size_t>(rank())];
  const std::size_t before = sum_of(options.counts.first(static_cast<std::size_t>(rank())));
  Staged& output = operation->stage(sum_of(options.counts));
  output.to_device(options.output);
  inner.output = output.place();
  if (options.input == options.output + before) {  // in place, there as here
    inner.input = output.place() + before;
  } else {
    Staged& input = operation->stage(own);
    input.to_device(options.input);
    inner.input = input.place();
  }
  operation->run(inner_.start(inner), output, options.output);
  return operation;
}

std::unique_ptr<kolo::Operation> DeviceAdapter::start(const ReduceScatterOptions& options) {
  ReduceScatterOptions inner = options;
  inner.stream = next_stream();
  if (refused([&] { comm::validate(options, size(), rank()); })) return inner_.start(inner);
  auto operation = std::make_unique<AdaptedOperation>(runtime_, inner.stream);
  const std::size_t unit = size_of(options.dtype);
  Staged& input = operation->stage(sum_of(options.counts) * unit);
  input.to_device(options.input);
  Staged& output = operation->stage(options.counts[static_cast<std::size_t>(rank())] * unit);
  inner.input = input.place();
  inner.output = output.place();
  operation->run(inner_.start(inner), output, options.output);
  return operation;
}

std::vector<std::unique_ptr<RegisteredBuffer>> DeviceAdapter::allocate(std::span<const std::size_t> sizes,
                                                                       std::chrono::milliseconds timeout) {
  std::vector<std::unique_ptr<RegisteredBuffer>> adapted;
  for (auto& inner : inner_.allocate(sizes, timeout)) {
    auto buffer = std::make_unique<AdaptedBuffer>(std::move(inner));
    const std::span<std::byte> host = buffer->data();
    AdaptedOperation look(runtime_, next_stream());  // zeros, if they are there
    Staged& all = look.stage(host.size(), buffer->on_device(host.data()));
    look.run(inner_.start_barrier(), all, host.data());
    drive(look, timeout, "allocate");
    adapted.push_back(std::move(buffer));
  }
  return adapted;
}

}  // namespace kolo::test
