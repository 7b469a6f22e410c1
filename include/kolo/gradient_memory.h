#pragma once
// Memory in which gradients may be made, so that they need not be copied for their reduction.
#include <cstddef>

#include "kolo/export.h"

namespace KOLO_EXPORT kolo {

// Blocks of memory of a GradientReducer, of the sizes that its gradients have. Thread-safe. Shared by the reducer and
// whoever holds blocks: the memory stays as long as either.
class GradientMemory {
 public:
  virtual ~GradientMemory() = default;
  // A block for a gradient of exactly `bytes`, on a 64-byte line. Null when none is free, or no gradient has this size.
  [[nodiscard]] virtual void* take(std::size_t bytes) noexcept = 0;
  // REQUIRES: `block` came from take(). A block that was contributed may be given back at any time: it is taken again
  // only when its round is over, until which peers, or the network, read and write it.
  virtual void give_back(void* block) noexcept = 0;
  [[nodiscard]] virtual bool owns(const void* data) const noexcept = 0;
};

}  // namespace kolo
