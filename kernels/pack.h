#pragma once
// Many tensors into one bucket and back, each in one launch: what scale_copy() does for one tensor of the host.
#include <cstddef>
#include <span>

#include "cuda/kernel.h"
#include "kernels/tensor_table.h"
#include "kolo/types.h"

namespace kolo::kernels {

struct Transfer {
  void* bucket = nullptr;  // device memory
  DType tensor_type = DType::f32;
  DType bucket_type = DType::f32;
  double scale = 1.0;
};

// Enqueued in `stream`: bucket[offset + i] = cast(tensor[i] * scale) for every tensor of `table`, whose one column is
// `tensors`; zeros where that is null. Elements between the tensors are not touched. Types, scale and rounding as in
// kernels/scale_copy.h, UsageError included. Addresses may be any; full speed takes tensors that lie alike in their
// 16 bytes with their place in the bucket. Tensors and bucket do not overlap.
void pack(cuda::KernelImage& image, TensorTable& table, std::span<void* const> tensors, const Transfer& transfer,
          Stream stream);
// The reverse: tensor[i] = cast(bucket[offset + i] * scale); tensors that are null are left out.
void unpack(cuda::KernelImage& image, TensorTable& table, std::span<void* const> tensors, const Transfer& transfer,
            Stream stream);

}  // namespace kolo::kernels
