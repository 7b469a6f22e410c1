#include "torch/gradient_slot.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/CPUAllocator.h>
#include <torch/csrc/autograd/variable.h>

#include <cstring>

#include "torch/dtype.h"

namespace kolo {

void GradientSlot::publish(std::span<std::byte> memory) {
  const bool reusable = view_.defined() && in_kolo_memory_ && view_.use_count() == 1 &&
                        view_.storage().use_count() == 1 && view_.const_data_ptr() == memory.data() &&
                        view_.sizes() == info.sizes && view_.strides() == info.strides;
  if (!reusable) {
    view_ = at::from_blob(memory.data(), info.sizes, info.strides,
                          at::TensorOptions().dtype(to_scalar_type(info.dtype)).device(c10::kCPU));
    in_kolo_memory_ = true;
  }
  parameter.mutable_grad() = view_;
  remember_version();
}

void GradientSlot::move_out() {
  if (!view_.defined() || !in_kolo_memory_) {
    return;
  }
  if (view_.use_count() == 1 && view_.storage().use_count() == 1) {
    return;  // nobody would notice
  }
  // Swapping the memory under the storage, not the tensor: every tensor that shares the storage follows.
  const at::Storage& storage = view_.storage();
  at::DataPtr copy = c10::GetCPUAllocator()->allocate(storage.nbytes());
  std::memcpy(copy.get(), storage.data(), storage.nbytes());
  storage.set_data_ptr_noswap(std::move(copy));
  in_kolo_memory_ = false;
}

bool GradientSlot::grad_is_leftover() const {
  return view_.defined() && parameter.grad().is_same(view_) && view_._version() == version_;
}

void GradientSlot::remember_version() {
  if (view_.defined()) {
    version_ = static_cast<std::uint32_t>(view_._version());
  }
}

GradientHook* GradientHook::install(const at::Tensor& parameter, Callback callback) {
  auto& slot = torch::autograd::impl::post_acc_grad_hooks(parameter);
  auto hook = std::make_unique<GradientHook>(std::move(slot), std::move(callback));
  GradientHook* const raw = hook.get();
  torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::move(hook));
  return raw;
}

void GradientHook::remove(const at::Tensor& parameter, const GradientHook* hook) {
  auto& slot = torch::autograd::impl::post_acc_grad_hooks(parameter);
  if (slot.get() == hook && hook != nullptr) {
    auto previous = std::move(static_cast<GradientHook&>(*slot).previous_);
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::move(previous));
  }
}

void GradientHook::operator()(const at::Tensor& tensor) {
  if (previous_) {
    (*previous_)(tensor);
  }
  callback_();
}

}  // namespace kolo
