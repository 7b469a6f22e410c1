#pragma once
// kolo's element types and reductions in NCCL's words.
#include <string_view>

#include "kolo/types.h"
#include "nccl/nccl_api.h"

namespace kolo::nccl {

struct Reduction {
  Type type = Type::f32;
  Op op = Op::sum;
  bool divides = false;  // an average: a sum, divided afterwards
};

// UsageError for what NCCL cannot do, with what to do instead. `call` begins its text.
[[nodiscard]] Reduction reduction_of(std::string_view call, DType dtype, ReduceOp op);

}  // namespace kolo::nccl
