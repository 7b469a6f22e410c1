#pragma once
// Names in the abstract namespace of Unix sockets. At most one process of a network namespace holds a name at a time.
// No file exists for it, and the kernel frees the name when the process ends or runs another program.
#include <string>

#include "base/unique_fd.h"

namespace kolo::cluster {

// Holds `name` (at most 100 bytes) as long as the descriptor is open. Empty if another descriptor holds the name, or if
// the system allows no such socket.
[[nodiscard]] base::UniqueFd hold_name(const std::string& name);
[[nodiscard]] bool is_name_held(const std::string& name);

}  // namespace kolo::cluster
