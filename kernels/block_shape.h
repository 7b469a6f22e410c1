#pragma once
// Blocks as all kernels of tensors have them, which is also what nvcc is told to leave registers for.

namespace kolo::kernels {

inline constexpr unsigned kThreads = 256;                // of a block
inline constexpr unsigned kBlocksPerMultiprocessor = 4;  // 1024 threads with up to 64 bytes each in flight

}  // namespace kolo::kernels
