#pragma once
#include <string>
#include <vector>

#include "kolo/error.h"

namespace kolo {

// `values`, by rank, of what all ranks were to do alike. Throws MismatchError naming rank 0's and the first other one.
inline void require_equal(const std::vector<std::string>& values, const std::string& what) {
  for (std::size_t rank = 1; rank < values.size(); ++rank) {
    if (values[rank] == values[0]) continue;
    throw MismatchError(what + ": rank 0 has " + values[0] + ", rank " + std::to_string(rank) + " has " + values[rank]);
  }
}

}  // namespace kolo
