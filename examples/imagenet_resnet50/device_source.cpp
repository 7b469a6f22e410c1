#include "device_source.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace imagenet {

DeviceSource::DeviceSource(std::unique_ptr<BatchSource> source, const c10::Device& device, Normalise normalise)
    : source_(std::move(source)),
      device_(device),
      normalise_(std::move(normalise)),
      copies_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)),
      copied_(device.type()) {}

void DeviceSource::begin(std::int64_t epoch, std::int64_t first, std::int64_t done) {
  source_->begin(epoch, first, done);
  stage();
}

bool DeviceSource::next(Batch& batch) {
  if (!staged_) return false;
  batch = *std::exchange(staged_, std::nullopt);
  if (on_its_way_) {
    const c10::impl::VirtualGuardImpl backend(device_.type());
    const c10::Stream compute = backend.getStream(device_);
    copied_.block(compute);
    // The memory belongs to the stream of the copies, which must not take it back while this one uses it.
    for (const auto& tensor : {batch.images, batch.labels}) {
      backend.recordDataPtrOnStream(tensor.storage().data_ptr(), compute);
    }
    if (batch.images.scalar_type() == at::kByte) batch.images = normalise_(batch.images);
  }
  stage();
  return true;
}

// Asks for the batch after the one in use. It costs no time but in the first step: loaders work ahead as well.
void DeviceSource::stage() {
  staged_.reset();
  Batch host;
  if (!source_->next(host)) return;
  on_its_way_ = host.images.device() != device_;
  if (!on_its_way_) {
    staged_ = host;
    return;
  }
  const c10::StreamGuard in_stream(copies_);
  staged_ = Batch{enqueue_copy(host.images), enqueue_copy(host.labels)};
  copied_.record(copies_);
}

// From pinned memory, which LibTorch's allocator keeps until the copy has been made, and then for the next one: only
// from there a copy does not make the host wait.
at::Tensor DeviceSource::enqueue_copy(const at::Tensor& from) const {
  return from.pin_memory().to(device_, /*non_blocking=*/true);
}

}  // namespace imagenet
