#pragma once
// Memory that nobody waits for any longer, while a stream may still use it.
#include <utility>

#include "base/keep_for_good.h"
#include "cuda/stream.h"

namespace kolo::cuda {

// Waits for at most two seconds until the stream is idle, or has failed: a device that has failed uses nothing any
// more.
[[nodiscard]] bool comes_to_rest(const OwnStream& stream) noexcept;

// What is released goes to somebody else, and freeing it waits for the device without a deadline. So it goes once the
// stream has come to rest; where that takes too long it is kept for good.
template <class Memory>
void release_after(const OwnStream& stream, Memory memory) noexcept {
  if (!comes_to_rest(stream)) base::keep_for_good(std::move(memory));
}

}  // namespace kolo::cuda
