#pragma once
#include <c10/core/ScalarType.h>

#include <optional>
#include <string_view>

#include "kolo/types.h"

namespace kolo {

// Empty for types that kolo does not reduce (complex, quantised, ...).
[[nodiscard]] std::optional<DType> find_dtype(c10::ScalarType type) noexcept;
// Throws UsageError naming `tensor` for those.
[[nodiscard]] DType to_dtype(c10::ScalarType type, std::string_view tensor);
[[nodiscard]] c10::ScalarType to_scalar_type(DType dtype) noexcept;

}  // namespace kolo
