#include "torch/torch_device.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace kolo {

bool is_reducible(const c10::Device& device) noexcept {
  return device.is_cpu() || device.is_cuda() || device.is_privateuseone();
}

c10::Stream current_stream(const c10::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

Stream to_stream(const c10::Stream& stream) { return {stream.native_handle(), stream.device_index()}; }

void keep_for(const at::Tensor& tensor, const c10::Stream& stream) {
  if (tensor.is_cpu()) {
    return;
  }
  c10::impl::VirtualGuardImpl(stream.device_type()).recordDataPtrOnStream(tensor.storage().data_ptr(), stream);
}

}  // namespace kolo
