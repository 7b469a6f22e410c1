#include "nccl/type_names.h"

#include <string>

#include "kolo/error.h"

namespace kolo::nccl {
namespace {

Type type_of(std::string_view call, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return Type::f32;
    case DType::f64:
      return Type::f64;
    case DType::f16:
      return Type::f16;
    case DType::bf16:
      return Type::bf16;
    case DType::i8:
      return Type::i8;
    case DType::u8:
    case DType::boolean:
      return Type::u8;
    case DType::i32:
      return Type::i32;
    case DType::i64:
      return Type::i64;
    case DType::i16:
      break;
  }
  throw UsageError(std::string(call) + ": NCCL does not support " + std::string(name_of(dtype)) +
                   "; use i32 on the device, or CPU memory");
}

// Booleans are bytes of 0 and 1: the maximum is OR, the minimum is AND.
Op boolean_op(ReduceOp op) { return op == ReduceOp::sum || op == ReduceOp::max ? Op::max : Op::min; }

}  // namespace

Reduction reduction_of(std::string_view call, DType dtype, ReduceOp op) {
  const Type type = type_of(call, dtype);
  if (dtype == DType::boolean) return {type, boolean_op(op)};
  switch (op) {
    case ReduceOp::sum:
      return {type, Op::sum};
    case ReduceOp::min:
      return {type, Op::min};
    case ReduceOp::max:
      return {type, Op::max};
    case ReduceOp::product:
      return {type, Op::product};
    case ReduceOp::average:
      break;
  }
  const bool floating = type == Type::f32 || type == Type::f64 || type == Type::f16 || type == Type::bf16;
  if (!floating) {
    throw UsageError(std::string(call) + ": cannot average " + std::string(name_of(dtype)) +
                     " on a device, because the sum can overflow " + std::string(name_of(dtype)) +
                     "; use sum and divide, a floating-point type, or CPU memory");
  }
  return {type, Op::sum, true};
}

}  // namespace kolo::nccl
