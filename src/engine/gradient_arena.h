#pragma once
// The blocks behind GradientMemory: for every size that gradients have, as many as there are such gradients.
//
//   [ a ][ a ][ a ] [  b  ] [    c    ][    c    ] ...      three gradients of size a, one of b, two of c
//
// Sizes are exact, so nothing is split and nothing fragments; what finds no block is made elsewhere and copied.
#include <memory>
#include <mutex>
#include <vector>

#include "kolo/spi/communicator.h"
#include "kolo/spi/gradient_reducer.h"

namespace kolo::engine {

class GradientArena final : public GradientMemory {
 public:
  // Bytes of memory for the gradients of `table` that have at least `from` bytes. The same on all ranks.
  [[nodiscard]] static std::size_t bytes_for(const std::vector<GradientInfo>& table, std::size_t from);
  // `memory` is that long. It may outlive its communicator: blocks in use keep it.
  GradientArena(const std::vector<GradientInfo>& table, std::size_t from, std::unique_ptr<RegisteredBuffer> memory);

  [[nodiscard]] void* take(std::size_t bytes) noexcept override;
  void give_back(void* block) noexcept override;
  [[nodiscard]] bool owns(const void* data) const noexcept override;

  // Whether `data` is a whole block in use, of a gradient of `bytes`, that the running round does not have yet; from
  // now on the round has it.
  [[nodiscard]] bool pin(const void* data, std::size_t bytes);
  // The round is over on all ranks.
  void unpin();
  [[nodiscard]] RegisteredBuffer& memory() noexcept { return *memory_; }

 private:
  struct Size {
    std::size_t bytes = 0;  // of a gradient
    std::size_t each = 0;   // of a block: the same, up to a full line
    std::size_t offset = 0;
    std::size_t count = 0;
    std::vector<std::size_t> free;  // offsets; the one used last on top, because it is in a cache
  };
  struct Block {
    bool in_use = false;
    bool pinned = false;
  };
  struct Found {
    Size* size = nullptr;
    Block* block = nullptr;
    std::size_t offset = 0;
  };
  [[nodiscard]] static std::vector<Size> sizes_of(const std::vector<GradientInfo>& table, std::size_t from);
  [[nodiscard]] Found find(const void* data) noexcept;

  std::unique_ptr<RegisteredBuffer> memory_;
  std::byte* begin_;
  std::size_t length_;
  std::mutex lock_;                 // guards what follows
  std::vector<Size> sizes_;         // by offset, and by bytes
  std::vector<std::size_t> first_;  // first_[k]: the index in blocks_ of sizes_[k]'s first block
  std::vector<Block> blocks_;
  std::vector<void*> pinned_;
};

}  // namespace kolo::engine
