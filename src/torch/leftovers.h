#pragma once
// Reduced gradients at parameters that take no part any more.
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <mutex>
#include <unordered_map>

#include "torch/weak_tensor.h"

namespace kolo {

// What a round has left at a parameter that was frozen afterwards, taken out of its optimizer, or whose
// DistributedOptimizer has gone: alike on all ranks, and no rank's own. One for the process. Thread-safe. Keeps no
// gradient alive.
class Leftovers {
 public:
  static Leftovers& instance();

  void add(const at::Tensor& gradient);
  [[nodiscard]] bool contains(const at::Tensor& gradient) const;

 private:
  void forget_what_has_gone();

  mutable std::mutex mutex_;
  std::unordered_map<const at::TensorImpl*, WeakTensor> all_;
  std::size_t most_ = 64;  // before those that have gone are forgotten
};

}  // namespace kolo
