#pragma once
// A safetensors file:
//
//   +-----------------+---------------------------+--------------------------------------+
//   | N, u64 little   | N bytes of JSON, padded    | the tensors' bytes, without gaps,    |
//   | endian          | with spaces to 8           | in the order of their offsets        |
//   +-----------------+---------------------------+--------------------------------------+
//
// {"__metadata__": {"key": "value"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
// with offsets counted from the end of the header.
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "kolo/types.h"

namespace kolo::checkpoint {

inline constexpr std::size_t kLengthBytes = 8;
inline constexpr std::size_t kHeaderAlignment = 8;
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the limit other readers have, too
inline constexpr std::string_view kMetadataKey = "__metadata__";

inline constexpr std::array<std::pair<DType, std::string_view>, 10> kDTypeNames{{{DType::f32, "F32"},
                                                                                 {DType::f64, "F64"},
                                                                                 {DType::f16, "F16"},
                                                                                 {DType::bf16, "BF16"},
                                                                                 {DType::i8, "I8"},
                                                                                 {DType::u8, "U8"},
                                                                                 {DType::i16, "I16"},
                                                                                 {DType::i32, "I32"},
                                                                                 {DType::i64, "I64"},
                                                                                 {DType::boolean, "BOOL"}}};

}  // namespace kolo::checkpoint
