#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/table_view.h"
#include "kolo/types.h"

namespace kolo::kernels {

// What kolo_pack and kolo_unpack take.
struct PackArguments {
  TableView table;
  std::byte* bucket = nullptr;
  double scale = 1.0;
  DType tensor_type = DType::f32;
  DType bucket_type = DType::f32;
  std::uint8_t element_bytes = 0;  // of types that are equal and not scaled: moved as they are; else 0
};

}  // namespace kolo::kernels
