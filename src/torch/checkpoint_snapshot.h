#pragma once
// This rank's part of a checkpoint: copied from the objects, then written by another thread.
//
//   tensors of an item     a b c d e f g h          all ranks hold them alike
//   rank 0 copies, writes  a b c          -> NAME-00001-of-00002.safetensors
//   rank 1 copies, writes        d e f g h -> NAME-00002-of-00002.safetensors
//
// Whole tensors, in their order, split where the bytes are in half. Rank 0 also writes NAME.pt (archives) and
// NAME.safetensors.index.json, which says in which file a tensor is.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kolo/checkpoint.h"
#include "torch/checkpoint_items.h"

namespace kolo {

// The part that each tensor belongs to: rank `owners[i]` writes tensor i. Tensors from rank 0 belong to rank 0. At most
// one owner for each kMinPartBytes.
inline constexpr std::uint64_t kMinPartBytes = std::uint64_t{16} << 20;
[[nodiscard]] std::vector<int> share_out(const std::vector<ItemTensor>& tensors, int ranks,
                                         std::uint64_t min_part_bytes = kMinPartBytes);

// Memory for copies, which stays allocated; pinned if a tensor is on a GPU.
class StagingBuffer {
 public:
  [[nodiscard]] std::byte* reserve(std::size_t bytes, bool pinned);

 private:
  at::Tensor memory_;
  bool pinned_ = false;
};

class CheckpointSnapshot {
 public:
  // Copies; later changes of the objects do not matter. `staging` must live, and not be reserved again, until write()
  // has returned.
  CheckpointSnapshot(const std::vector<std::unique_ptr<CheckpointItem>>& items, int rank, int ranks,
                     StagingBuffer& staging);

  // A small file of this rank.
  void add_file(std::string name, std::string content) { texts_.push_back({std::move(name), std::move(content)}); }

  // What all ranks must have alike: a hash of the names, types and shapes.
  [[nodiscard]] std::uint64_t layout() const noexcept { return layout_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

  struct Written {
    std::vector<checkpoint::WrittenFile> files;
    bool finite = true;  // all floating-point tensors
  };
  // In any thread, once. Throws BackendError.
  [[nodiscard]] Written write(const std::filesystem::path& folder);

 private:
  struct Copy {
    checkpoint::TensorView view;        // its bytes are in the staging buffer
    std::vector<std::int64_t> strides;  // of these bytes
    at::Tensor source;                  // until it is copied
  };
  struct TensorFile {
    std::string name;
    std::vector<Copy> tensors;
  };
  struct Index {
    std::string name;
    std::vector<std::pair<std::string, std::string>> files;  // of each tensor
    std::uint64_t bytes = 0;
  };
  void add_item(CheckpointItem& item, int rank, int ranks, std::ostream& layout);
  void copy_all(StagingBuffer& staging);

  std::vector<TensorFile> tensor_files_;
  std::vector<std::pair<std::string, std::string>> texts_;
  std::vector<Index> indexes_;
  std::uint64_t layout_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace kolo
