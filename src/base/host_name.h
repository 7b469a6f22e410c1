#pragma once
#include <string>

namespace kolo::base {

// This machine's name, for people.
[[nodiscard]] std::string host_name();
// Equal exactly for processes that can reach each other through memory and abstract sockets, and know each other by
// the same process numbers: host name, running kernel, namespaces of network and processes. Containers with a name or
// process numbers of their own are hosts of their own.
[[nodiscard]] std::string host_key();

}  // namespace kolo::base
