#include "torch/torch_device.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace kolo {

bool is_reducible(const c10::Device& device) noexcept {
  return device.is_cpu() || device.is_cuda() || device.is_privateuseone();
}

bool is_plain(const at::Tensor& tensor) { return !tensor.is_neg() && !tensor.is_conj() && !tensor._is_zerotensor(); }

at::Tensor resolved(const at::Tensor& tensor) {
  return tensor._is_zerotensor() ? tensor.clone() : tensor.resolve_conj().resolve_neg();
}

at::Tensor host_form(const at::Tensor& tensor) {
  const at::Tensor plain = resolved(tensor);
  const at::Tensor dense = plain.is_non_overlapping_and_dense() ? plain : plain.contiguous();
  return dense.is_cpu() ? dense : dense.to(c10::kCPU);
}

void write_back(const at::Tensor& tensor, const at::Tensor& form) {
  const c10::InferenceMode mode(tensor.is_inference());  // elsewhere inference tensors cannot be written
  const c10::NoGradGuard no_grad;
  if (form.is_same(tensor)) {
    tensor.unsafeGetTensorImpl()->bump_version();
  } else {
    tensor.copy_(form);
  }
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
