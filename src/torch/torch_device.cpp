#include "torch/torch_device.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "kolo/error.h"

namespace kolo {

bool is_reducible(const c10::Device& device) noexcept {
  return device.is_cpu() || device.is_cuda() || device.is_privateuseone();
}

void require_reducible(const at::Tensor& tensor, const std::string& name) {
  if (!tensor.defined() || tensor.layout() != c10::kStrided || !is_reducible(tensor.device())) {
    throw UsageError("tensor '" + name + "' is not a dense tensor of the CPU or of a CUDA device");
  }
}

at::Tensor host_form(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
  return dense.is_cpu() ? dense : dense.to(c10::kCPU);
}

c10::Stream current_stream(const c10::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

void order_streams(const c10::Stream& later, const c10::Stream& earlier) {
  c10::Event event(earlier.device_type());
  event.record(earlier);
  event.block(later);
}

Stream to_stream(const c10::Stream& stream) { return {stream.native_handle(), stream.device_index()}; }

void keep_for(const at::Tensor& tensor, const c10::Stream& stream) {
  if (tensor.is_cpu()) {
    return;
  }
  c10::impl::VirtualGuardImpl(stream.device_type()).recordDataPtrOnStream(tensor.storage().data_ptr(), stream);
}

void release_cached(const c10::Device& device) noexcept {
  try {
    auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
    if (allocator != nullptr && allocator->initialized()) allocator->emptyCache();
  } catch (const std::exception&) {  // whoever asked sees that there is no more
  }
}

}  // namespace kolo
