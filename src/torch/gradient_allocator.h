#pragma once
// LibTorch's allocator for the CPU, taught to make gradients where their reduction wants them.
//
//   ConvolutionBackward --> AccumulateGrad(weight)     While the first node computes, memory of the weight's size is
//     at::empty(...)   ^                               asked for: that may become the weight's gradient. It comes from
//     [a block]  ------+                               the weight's GradientMemory, if that has a block.
//
// A node may ask several times, for temporaries too (oneDNN's layouts, a change of strides): which of them is the
// gradient is learned from where the gradient was found last time. A guess may be wrong both ways: a temporary in a
// block costs nothing once it is gone, and a gradient elsewhere is copied. Everything else goes to the allocator that
// was there before.
//
// One for the process, because LibTorch has one. It is installed when first needed and stays: what it has handed out
// may come back at any time.
#include <c10/core/Allocator.h>
#include <c10/core/TensorImpl.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "kolo/spi/gradient_reducer.h"

namespace kolo {

class GradientAllocator final : public c10::Allocator {
 public:
  static GradientAllocator& instance();

  // From now on gradients of `parameter`, of `bytes`, are made in `memory`. Thread-safe, as all of it.
  void serve(const c10::TensorImpl* parameter, std::size_t bytes, std::shared_ptr<GradientMemory> memory);
  void forget(const c10::TensorImpl* parameter);
  // The parameter's gradient of this backward has come, in `memory` or not.
  void learn(const c10::TensorImpl* parameter, bool found_in_memory);

  c10::DataPtr allocate(std::size_t bytes) override;
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

 private:
  struct Served {
    std::size_t bytes = 0;
    std::shared_ptr<GradientMemory> memory;
    std::size_t asked = 0;  // so many times in this backward
    std::size_t skip = 0;   // so many of them are temporaries
  };
  // Kept until the last of its blocks has come back, though its reducer be gone.
  struct Kept {
    std::shared_ptr<GradientMemory> memory;
    std::size_t blocks = 0;      // of it that are in use
    std::size_t parameters = 0;  // whose gradients are made in it
  };

  explicit GradientAllocator(c10::Allocator* everything_else) : rest_(everything_else) {}
  static void give_back(void* memory);
  [[nodiscard]] void* block_for(std::size_t bytes);
  bool take_back(void* block);
  void drop_unused(std::shared_ptr<GradientMemory> memory);

  c10::Allocator* const rest_;
  std::mutex lock_;
  std::unordered_map<const c10::TensorImpl*, Served> parameters_;
  std::unordered_map<std::size_t, std::size_t> sizes_;  // bytes: how many parameters have gradients of that size
  std::vector<Kept> kept_;
};

}  // namespace kolo
