#pragma once
#include <string>

#include "kolo/error.h"
#include "kolo/types.h"

namespace kolo {

// Throws UsageError unless `root` is a rank of a world of `size`. `call` is named in the error.
inline void require_root(const std::string& call, Rank root, int size) {
  if (root >= 0 && root < size) return;
  throw UsageError(call + ": root " + std::to_string(root) + " is not a rank of a world of " + std::to_string(size));
}

}  // namespace kolo
