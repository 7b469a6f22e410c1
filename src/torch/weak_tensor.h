#pragma once
// Which tensor one was, without keeping it alive.
#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

namespace kolo {

// As long as one is held, no other tensor gets the address of the one that it stands for.
using WeakTensor = c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>;

// Of an undefined tensor: of none.
[[nodiscard]] inline WeakTensor weak(const at::Tensor& tensor) { return WeakTensor(tensor.getIntrusivePtr()); }

[[nodiscard]] inline bool is_same(const WeakTensor& one, const at::Tensor& other) {
  return !one.expired() && one._unsafe_get_target() == other.unsafeGetTensorImpl();
}

}  // namespace kolo
