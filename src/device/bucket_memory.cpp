#include "device/bucket_memory.h"

#include <algorithm>
#include <utility>

#include "kernels/pack.h"

namespace kolo::device {

BucketMemory::BucketMemory(Lane& lane, BucketShape shape, std::chrono::milliseconds timeout)
    : lane_(lane),
      shape_(std::move(shape)),
      share_(lane, shape_.dtype, shape_.bytes),
      memory_(lane.allocate(share_.padded_bytes(), timeout)),
      table_(lane.runtime(), lane.device(), shape_.places, {.element_bytes = size_of(shape_.dtype)}),
      sources_(shape_.places.size(), nullptr),
      fetched_(lane.runtime(), lane.device()),
      done_(lane.runtime(), lane.device()) {}

void BucketMemory::open() {
  std::fill(sources_.begin(), sources_.end(), nullptr);
  streams_.clear();
  ready_.clear();  // of a round that was given up
}

void BucketMemory::contribute(std::size_t slot, const void* data, Stream ready) {
  sources_[slot] = shape_.places[slot].count == 0 ? nullptr : const_cast<void*>(data);  // only read
  const auto same = [&](const Stream& stream) { return stream.handle == ready.handle; };
  if (std::none_of(streams_.begin(), streams_.end(), same)) streams_.push_back(ready);
}

void BucketMemory::seal() {
  for (const Stream& stream : streams_) {
    ready_.push_back(lane_.events().take());
    ready_.back().record(stream);
  }
}

void BucketMemory::let_go() { std::fill(sources_.begin(), sources_.end(), nullptr); }

void BucketMemory::pack(double scale) {
  const cuda::DeviceGuard guard(*lane_.runtime(), lane_.device());  // one switch, instead of one in each call
  for (auto& event : ready_) {
    cuda::wait_for(*lane_.runtime(), lane_.stream(), event);
    lane_.events().give_back(std::move(event));
  }
  ready_.clear();
  const kernels::Transfer transfer{data(), shape_.dtype, shape_.dtype, scale};
  kernels::pack(lane_.kernels(), table_, sources_, transfer, lane_.stream());
}

void BucketMemory::sum() {
  if (lane_.route() == Route::shares_by_devices) {
    gather();
    share_.across(memory_->data());
    return spread();
  }
  const cuda::DeviceGuard guard(*lane_.runtime(), lane_.device());
  AllreduceOptions options;
  options.data = data();
  options.count = shape_.bytes / size_of(shape_.dtype);
  options.dtype = shape_.dtype;
  options.op = ReduceOp::sum;
  options.registered = memory_.get();
  options.stream = lane_.stream();
  lane_.keep(lane_.communicator().start(options));
  done_.record(lane_.stream());
}

void BucketMemory::gather() { share_.gather(memory_->data()); }

void BucketMemory::spread() {
  const cuda::DeviceGuard guard(*lane_.runtime(), lane_.device());
  share_.spread(memory_->data());
  done_.record(lane_.stream());
}

void BucketMemory::fetch(std::span<std::byte> host) {
  const cuda::DeviceGuard guard(*lane_.runtime(), lane_.device());
  cuda::copy(*lane_.runtime(), host.data(), data(), shape_.bytes, lane_.stream());
  fetched_.record(lane_.stream());
}

void BucketMemory::put(std::span<const std::byte> host) {
  const cuda::DeviceGuard guard(*lane_.runtime(), lane_.device());
  cuda::copy(*lane_.runtime(), data(), host.data(), shape_.bytes, lane_.stream());
  done_.record(lane_.stream());
}

void BucketMemory::hand_to(Stream user) { cuda::wait_for(*lane_.runtime(), user, done_); }

}  // namespace kolo::device
