#pragma once
// A shorter message than its receive buffer is no error of a Transport, but one of every algorithm here.
#include <string>

#include "kolo/error.h"
#include "transport/transport.h"

namespace kolo::collectives {

// Whether it has come. Throws BackendError when it is not `bytes` long: it was damaged, or the ranks do not agree on
// the operation.
inline bool has_come(transport::Transfer& receive, std::size_t bytes, Rank from) {
  if (!receive.test()) return false;
  if (receive.size() == bytes) return true;
  throw BackendError("rank " + std::to_string(from) + " sent " + std::to_string(receive.size()) + " bytes, not " +
                     std::to_string(bytes) + ". Do all ranks call the same collective with equal counts?");
}

}  // namespace kolo::collectives
