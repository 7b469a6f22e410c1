#include "torch/dtype.h"

#include <string>

#include "kolo/error.h"

namespace kolo {

std::optional<DType> find_dtype(c10::ScalarType type) noexcept {
  switch (type) {
    case c10::ScalarType::Float:
      return DType::f32;
    case c10::ScalarType::Double:
      return DType::f64;
    case c10::ScalarType::Half:
      return DType::f16;
    case c10::ScalarType::BFloat16:
      return DType::bf16;
    case c10::ScalarType::Char:
      return DType::i8;
    case c10::ScalarType::Byte:
      return DType::u8;
    case c10::ScalarType::Short:
      return DType::i16;
    case c10::ScalarType::Int:
      return DType::i32;
    case c10::ScalarType::Long:
      return DType::i64;
    case c10::ScalarType::Bool:
      return DType::boolean;
    default:
      return std::nullopt;
  }
}

DType to_dtype(c10::ScalarType type, std::string_view tensor) {
  if (const auto dtype = find_dtype(type)) return *dtype;
  throw UsageError("tensor '" + std::string(tensor) + "' has type " + c10::toString(type) +
                   ", which kolo does not reduce" +
                   (c10::isComplexType(type) ? "; use view_as_real()" : "; convert it with to()"));
}

c10::ScalarType to_scalar_type(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
      return c10::ScalarType::Float;
    case DType::f64:
      return c10::ScalarType::Double;
    case DType::f16:
      return c10::ScalarType::Half;
    case DType::bf16:
      return c10::ScalarType::BFloat16;
    case DType::i8:
      return c10::ScalarType::Char;
    case DType::u8:
      return c10::ScalarType::Byte;
    case DType::i16:
      return c10::ScalarType::Short;
    case DType::i32:
      return c10::ScalarType::Int;
    case DType::i64:
      return c10::ScalarType::Long;
    case DType::boolean:
      return c10::ScalarType::Bool;
  }
  return c10::ScalarType::Byte;
}

}  // namespace kolo
