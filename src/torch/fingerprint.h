#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

namespace kolo {

// Equal for equal bytes, and for others with a chance of one in 2^64 (XXH3).
[[nodiscard]] std::uint64_t fingerprint(std::string_view bytes);
// Of a tensor's elements as they lie in memory, or, with gaps there, in their logical order. On a device: the host
// waits for the current stream.
[[nodiscard]] std::uint64_t fingerprint(const at::Tensor& tensor);

}  // namespace kolo
