#pragma once
// Many tensors and one bucket, as kernels see them. A tensor is cut into chunks of equal size, and blocks take chunks
// in turn: so every block has the same work, however large or small the tensors are.
//
//     bucket    |  tensor 0 ............  |pad|  tensor 1  |pad|  tensor 2 ...............  |
//     chunks    | 0    | 1    | 2    | 3  |   |  4         |   | 5    | 6    | 7    | 8    9|
//     block       0      1      2      0         1               2      0      1      2    0
#include <cstddef>
#include <cstdint>

namespace kolo::kernels {

struct alignas(16) Chunk {
  std::uint64_t first = 0;  // element of the tensor
  std::uint32_t tensor = 0;
  std::uint32_t count = 0;  // elements, never 0
};

// A table in device memory. Columns: what a kernel needs an address of for every tensor (gradient; or weight and
// momentum; ...).
struct TableView {
  std::byte* const* addresses = nullptr;   // [column * tensors + tensor]; null: there is no such tensor
  const std::uint64_t* offsets = nullptr;  // of each tensor, in elements from the bucket's start
  const Chunk* chunks = nullptr;
  std::uint32_t tensors = 0;
  std::uint32_t chunk_count = 0;
};

}  // namespace kolo::kernels
