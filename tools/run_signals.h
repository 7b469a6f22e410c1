#pragma once
// Signals as something to poll.
#include <initializer_list>

#include "base/unique_fd.h"

namespace kolo::tools {

// From now on `wanted` are blocked, and read from here; a write to somebody who is gone is an error, not the end.
[[nodiscard]] base::UniqueFd signal_descriptor(std::initializer_list<int> wanted);

}  // namespace kolo::tools
