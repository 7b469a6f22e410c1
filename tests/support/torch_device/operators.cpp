// The few operators that are more than a kernel: memory, views, copies to and from the host. All others are queued
// calls.
#include <ATen/EmptyTensor.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "support/torch_device/backend.h"
#include "support/torch_device/queued_call.h"

namespace kolo::test {
namespace {

const c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

at::ScalarType type_or_default(std::optional<at::ScalarType> type) {
  return type.value_or(c10::get_default_dtype_as_scalartype());
}

c10::Device device_or_current(std::optional<c10::Device> device) {
  if (device.has_value() && device->has_index()) return *device;
  int current = 0;
  check(backend()->api.get_device(&current), "get_device");
  return TorchDevice::at(current);
}

at::Tensor empty(c10::IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<c10::Layout>,
                 std::optional<c10::Device> device, std::optional<bool>, std::optional<c10::MemoryFormat> format) {
  const c10::DeviceGuard guard(device_or_current(device));
  auto* const allocator = c10::GetAllocator(c10::DeviceType::PrivateUse1);
  return at::detail::empty_generic(sizes, allocator, kKeys, type_or_default(type), format);
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<at::ScalarType> type,
                         std::optional<c10::Layout>, std::optional<c10::Device> device, std::optional<bool>) {
  const c10::DeviceGuard guard(device_or_current(device));
  auto* const allocator = c10::GetAllocator(c10::DeviceType::PrivateUse1);
  return at::detail::empty_strided_generic(sizes, strides, allocator, kKeys, type_or_default(type));
}

// What was there stays there.
const at::Tensor& resize(const at::Tensor& tensor, c10::IntArrayRef sizes, std::optional<c10::MemoryFormat> format) {
  TORCH_CHECK(format.value_or(c10::MemoryFormat::Contiguous) == c10::MemoryFormat::Contiguous,
              "the simulated device resizes contiguous tensors only");
  const c10::DeviceGuard guard(tensor.device());
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  const auto elements = static_cast<std::size_t>(tensor.storage_offset() + tensor.numel());
  const c10::Storage& storage = tensor.storage();
  if (tensor.numel() == 0 || elements * tensor.itemsize() <= storage.nbytes()) return tensor;
  auto* const allocator = c10::GetAllocator(c10::DeviceType::PrivateUse1);
  c10::DataPtr larger = allocator->allocate(elements * tensor.itemsize());
  if (storage.nbytes() != 0) allocator->copy_data(larger.get(), storage.data(), storage.nbytes());
  storage.set_data_ptr_noswap(std::move(larger));
  storage.set_nbytes(elements * tensor.itemsize());
  return tensor;
}

at::Tensor& set_storage(at::Tensor& tensor, c10::Storage storage, std::int64_t offset, c10::IntArrayRef sizes,
                        c10::IntArrayRef strides) {
  TORCH_CHECK(storage.device() == tensor.device(), "a storage of ", storage.device(), " for a tensor of ",
              tensor.device());
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

// Into memory of the host that nobody else has, which is complete when this returns, as a copy into pageable memory is.
at::Tensor fetch(const at::Tensor& from) {
  const c10::DeviceGuard guard(from.device());
  at::Tensor arrived = at::empty(from.sizes(), from.options().device(c10::kCPU));
  enqueue(from.device(), "copy to the host", {footprint(from, Access::read)},
          [to = arrived, source = on_host(from)] { to.copy_(source); });
  const auto mine = backend();
  const auto stream = mine->streams.handle(mine->streams.current(from.get_device()));
  check(mine->api.stream_synchronize(stream), "stream_synchronize");
  return arrived;
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  if (to.is_cpu()) return to.copy_(fetch(from));
  if (from.is_cpu()) {
    enqueue(to.device(), "copy from the host", {footprint(to, Access::write)},
            [target = on_host(to), taken = from.clone()] { target.copy_(taken); });
    return to;
  }
  TORCH_CHECK(from.device() == to.device(), "the simulated device copies nothing from device to device");
  enqueue(to.device(), "copy", {footprint(to, Access::write), footprint(from, Access::read)},
          [target = on_host(to), source = on_host(from)] { target.copy_(source); });
  return to;
}

at::Scalar local_scalar(const at::Tensor& tensor) { return at::_local_scalar_dense(fetch(tensor)); }

void record_stream(at::Tensor& tensor, c10::Stream stream) {
  backend()->allocator.record(tensor.storage().data_ptr(), stream);
}

}  // namespace

void register_operators() {
  static torch::Library operators(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  operators.impl("empty.memory_format", empty);
  operators.impl("empty_strided", empty_strided);
  operators.impl("resize_", resize);
  operators.impl("set_.source_Storage_storage_offset", set_storage);
  operators.impl("as_strided", at::native::as_strided_tensorimpl);
  operators.impl("view", at::native::view);
  operators.impl("_reshape_alias", at::native::_reshape_alias);
  operators.impl("_copy_from", copy_from);
  operators.impl("_local_scalar_dense", local_scalar);
  operators.impl("record_stream", record_stream);
  static torch::Library others(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  others.fallback(torch::CppFunction::makeFromBoxedFunction<&queue_call>());
}

}  // namespace kolo::test
