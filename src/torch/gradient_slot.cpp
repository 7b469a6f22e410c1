#include "torch/gradient_slot.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>

#include "torch/dtype.h"
#include "torch/fingerprint.h"
#include "torch/torch_device.h"

namespace kolo {

namespace {

at::Tensor tensor_at(void* memory, const GradientInfo& info, const c10::Device& device) {
  return at::for_blob(memory, info.sizes)
      .strides(info.strides)
      .options(at::TensorOptions().dtype(to_scalar_type(info.dtype)).device(device))
      .target_device(device)
      .make_tensor();
}

at::DataPtr copy_of(const at::Storage& storage) {
  if (storage.device().is_cpu()) {
    at::DataPtr copy = c10::GetCPUAllocator()->allocate(storage.nbytes());
    std::memcpy(copy.get(), storage.data(), storage.nbytes());
    return copy;
  }
  GradientInfo bytes;
  bytes.dtype = DType::u8;
  bytes.sizes = {static_cast<std::int64_t>(storage.nbytes())};
  bytes.strides = {1};
  const c10::NoGradGuard no_grad;
  const at::Tensor copy = tensor_at(storage.mutable_data(), bytes, storage.device()).clone();
  return copy.storage().set_data_ptr(at::DataPtr(nullptr, storage.device()));
}

// Swaps the memory under the storage, not the tensor: every tensor that shares the storage follows.
void make_private(const at::Storage& storage) { storage.set_data_ptr_noswap(copy_of(storage)); }

}  // namespace

void GradientSlot::publish(std::span<std::byte> memory) {
  if (held) {
    publish_copy(memory);
  } else if (is_kept(memory)) {
    if (in_place) kept.unsafeGetTensorImpl()->bump_version();  // peers have written to it
    parameter.mutable_grad() = kept;
    view_.reset();
  } else {
    publish_view(memory);
    parameter.mutable_grad() = view_;
  }
  result_ = weak(parameter.grad());
  result_is_held_ = held;
  remember_result();
}

bool GradientSlot::is_kept(std::span<std::byte> memory) const {
  return kept.defined() && kept.const_data_ptr() == memory.data();
}

// With one rank the result is the gradient as it is now, also where another layout of it was contributed.
void GradientSlot::publish_copy(std::span<std::byte> memory) {
  const at::Tensor& grad = parameter.grad();
  if (grad.const_data_ptr() == memory.data()) {
    if (in_place) grad.unsafeGetTensorImpl()->bump_version();
  } else if (in_place || !is_kept(memory)) {
    const c10::InferenceMode as_it_is(grad.is_inference());
    const c10::NoGradGuard no_grad;
    grad.copy_(tensor_at(memory.data(), info, parameter.device()));
  }
  if (!is_view(grad)) view_.reset();
}

void GradientSlot::publish_view(std::span<std::byte> memory) {
  const bool reusable = view_.defined() && in_kolo_memory_ && view_.use_count() == 1 &&
                        view_.storage().use_count() == 1 && view_.const_data_ptr() == memory.data() &&
                        view_.sizes() == info.sizes && view_.strides() == info.strides;
  if (!reusable) {
    const c10::InferenceMode outlives_it(false);  // where step() is called in one, the gradient may still be added to
    view_ = tensor_at(memory.data(), info, parameter.device());
    in_kolo_memory_ = true;
  }
}

Stream GradientSlot::ready_stream() const {
  if (kept.is_cpu()) {
    return {};
  }
  const c10::Stream stream = current_stream(kept.device());
  kolo::keep_for(kept, stream);
  return to_stream(stream);
}

void GradientSlot::keep_for(const c10::Stream& stream) const noexcept {
  try {
    if (kept.defined()) {
      kolo::keep_for(kept, stream);
    }
  } catch (...) {  // a device that is lost gives nobody memory any more
  }
}

bool GradientSlot::is_held() const {
  return view_.defined() && in_kolo_memory_ && (view_.use_count() > 1 || view_.storage().use_count() > 1);
}

void GradientSlot::move_out() {
  if (!is_held()) return;
  make_private(view_.storage());
  in_kolo_memory_ = false;
}

void GradientSlot::rescue_kept() noexcept {
  if (!in_place || !kept.defined()) {
    return;
  }
  try {
    make_private(kept.storage());
  } catch (...) {
    parameter.mutable_grad().reset();
  }
}

bool GradientSlot::is_view(const at::Tensor& gradient) const {
  return view_.defined() && view_.storage().unsafeGetStorageImpl() == gradient.storage().unsafeGetStorageImpl();
}

std::size_t GradientSlot::references_to_grad() const {
  const at::Tensor& grad = parameter.grad();
  return 1 + (kept.is_same(grad) ? 1 : 0) + (view_.is_same(grad) ? 1 : 0);
}

bool GradientSlot::grad_is_foreign() const {
  const at::Tensor& grad = parameter.grad();
  return !grad.storage().resizable() && !is_view(grad);
}

std::size_t GradientSlot::tensors_beside_grad() const {
  const at::Tensor& grad = parameter.grad();
  const auto is_another = [&](const at::Tensor& tensor) {
    return tensor.defined() && !tensor.is_same(grad) && tensor.storage().is_alias_of(grad.storage());
  };
  return (is_another(kept) ? 1 : 0) + (is_another(view_) && !view_.is_same(kept) ? 1 : 0);
}

bool GradientSlot::grad_is_result() const { return parameter.grad().defined() && is_same(result_, parameter.grad()); }

bool GradientSlot::grad_is_leftover() const {
  return grad_is_result() && !parameter.grad().is_inference() && parameter.grad()._version() == version_ &&
         grad_has_result_value();
}

bool GradientSlot::grad_has_result_value() const {
  if (!grad_is_result() || parameter.grad().is_inference()) return false;
  if (result_hash_) return fingerprint(parameter.grad()) == *result_hash_;
  return parameter.grad()._version() == version_;
}

// Gradients that autograd cut out of one tensor (of parameters that were concatenated, say) share memory and counter: a
// further one that is added to the next would be taken for a change of this one.
void GradientSlot::remember_contribution() {
  const at::Tensor& grad = parameter.grad();
  handed_over_ = weak(grad);
  handed_memory_ = grad.const_data_ptr();
  handed_version_.reset();
  if (!grad.is_inference() && grad.storage().use_count() == 1) {
    handed_version_ = static_cast<std::uint32_t>(grad._version());
  }
  handed_whole_ = !handed_version_;
  handed_sample_ = sample_of(grad);
}

// A hash of all elements if the gradient has no usable version counter (handed_whole_), else of four elements, spread
// evenly. 0 if the gradient is on a device or is reduced in place.
std::uint64_t GradientSlot::sample_of(const at::Tensor& grad) const {
  if (handed_whole_ && grad.is_cpu() && !in_place) return fingerprint(grad);
  const std::size_t element = grad.element_size();
  if (!grad.is_cpu() || in_place || grad.numel() == 0 || !grad.is_non_overlapping_and_dense()) return 0;
  const auto* const bytes = static_cast<const std::byte*>(grad.const_data_ptr());
  const auto last = static_cast<std::size_t>(grad.numel()) - 1;
  std::uint64_t sample = 0;
  for (const std::size_t third : {0, 1, 2, 3}) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, bytes + last * third / 3 * element, std::min(element, sizeof bits));
    sample = sample * 0x9e3779b97f4a7c15 + bits;
  }
  return sample;
}

// Another optimizer's result lies in memory of kolo's, which cannot be resized.
bool GradientSlot::changed_since_contribution() const {
  const at::Tensor& grad = parameter.grad();
  if (!grad.defined()) return false;
  const bool same = is_same(handed_over_, grad);
  if (same && handed_version_ && grad._version() != *handed_version_) return true;
  if (!same) {
    if (grad.layout() != c10::kStrided) return true;
    if (!grad.storage().resizable()) return false;
    if (!grad.is_cpu()) return grad.const_data_ptr() != handed_memory_;
    if (!in_place && kept.defined()) return fingerprint(grad) != fingerprint(kept) && !grad.equal(kept);
  }
  return sample_of(grad) != handed_sample_;
}

bool GradientSlot::was_replaced() const {
  const at::Tensor& grad = parameter.grad();
  if (!contributed || !grad.defined() || kept.is_same(grad)) return false;
  return !copied || changed_since_contribution();
}

void GradientSlot::remember_pass() {
  const at::Tensor& grad = parameter.grad();
  pass_grad_ = weak(grad);
  pass_version_ = grad.is_inference() ? 0 : static_cast<std::uint32_t>(grad._version());
}

// Autograd adds a pass in place, which is one version; with create_graph it makes a new tensor instead.
bool GradientSlot::dropped_since_pass() const {
  const at::Tensor& grad = parameter.grad();
  return !is_same(pass_grad_, grad) || grad.is_inference() ||
         static_cast<std::uint32_t>(grad._version()) != pass_version_ + 1;
}

void GradientSlot::remember_result() {
  remember_version();
  result_hash_.reset();
  if (result_is_held_ && grad_is_result() && parameter.grad().is_cpu()) result_hash_ = fingerprint(parameter.grad());
}

void GradientSlot::remember_version() {
  if (grad_is_result() && !parameter.grad().is_inference()) {
    version_ = static_cast<std::uint32_t>(parameter.grad()._version());
  }
}

GradientHook* GradientHook::install(const std::shared_ptr<GradientSlot>& of, Callback callback) {
  auto& slot = torch::autograd::impl::post_acc_grad_hooks(of->parameter);
  auto hook = std::make_unique<GradientHook>(std::move(slot), of, std::move(callback));
  GradientHook* const raw = hook.get();
  torch::autograd::impl::set_post_acc_grad_hooks(of->parameter, std::move(hook));
  return raw;
}

std::vector<std::shared_ptr<GradientSlot>> GradientHook::slots_of(const at::Tensor& parameter) {
  std::vector<std::shared_ptr<GradientSlot>> slots;
  auto* hook = dynamic_cast<GradientHook*>(torch::autograd::impl::post_acc_grad_hooks(parameter).get());
  for (; hook != nullptr; hook = dynamic_cast<GradientHook*>(hook->previous_.get())) {
    auto slot = hook->of_.lock();
    if (slot != nullptr && slot->index != GradientSlot::kDeparted) slots.push_back(std::move(slot));
  }
  return slots;
}

void GradientHook::remove(const at::Tensor& parameter, const GradientHook* hook) {
  auto& top = torch::autograd::impl::post_acc_grad_hooks(parameter);
  if (hook == nullptr || top == nullptr) return;
  if (top.get() == hook) {
    auto previous = std::move(static_cast<GradientHook&>(*top).previous_);
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::move(previous));
    return;
  }
  for (auto* over = dynamic_cast<GradientHook*>(top.get()); over != nullptr;
       over = dynamic_cast<GradientHook*>(over->previous_.get())) {
    if (over->previous_.get() != hook) continue;
    const auto ours = std::move(over->previous_);
    over->previous_ = std::move(static_cast<GradientHook&>(*ours).previous_);
    return;
  }
}

void GradientHook::operator()(const at::Tensor& tensor) {
  if (previous_) {
    (*previous_)(tensor);
  }
  callback_();
}

}  // namespace kolo
