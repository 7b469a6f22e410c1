#pragma once
#include "kolo/error.h"

namespace kolo::engine {

// The control channel failed, or this rank's device refused, of which no other rank knows: not one operation ends with
// it but the group.
class GroupFailure : public BackendError {
 public:
  using BackendError::BackendError;
};

}  // namespace kolo::engine
