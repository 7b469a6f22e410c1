#pragma once
// What the updates of one optimizer share, in device memory: whether a step is skipped is known only there, so its
// number is counted there too, and the host never asks.
#include <cstdint>

#include "kolo/types.h"

namespace kolo::kernels {

// All zeros before the first step. A program that goes on from a checkpoint writes the number of steps.
struct alignas(16) UpdateState {
  std::uint32_t steps = 0;  // done, the one that is being done included
  std::uint32_t skipped = 0;
  float correction1 = 1.0F;       // 1 - beta1^steps
  float correction2_root = 1.0F;  // sqrt(1 - beta2^steps)
};

// How an update gets at its gradients: the reduced bucket, read where it lies. All pointers are device memory.
struct Gradients {
  const void* bucket = nullptr;          // f32, f16 or bf16
  const UpdateState* state = nullptr;    // after begin_update()
  const std::uint32_t* skip = nullptr;   // may be null; not 0: the update does nothing
  const float* inverse_scale = nullptr;  // may be null
  float scale = 1.0F;                    // a gradient is the element times (scale * inverse_scale), in fp32
  DType dtype = DType::f32;
};

// What kolo_begin_update takes.
struct BeginUpdate {
  UpdateState* state = nullptr;
  const std::uint32_t* skip = nullptr;  // as in Gradients
  double beta1 = 0;                     // for AdamW
  double beta2 = 0;
};

}  // namespace kolo::kernels
