#pragma once
#include <string>

namespace kolo::cluster {

// This machine's name, for people.
[[nodiscard]] std::string host_name();
// Equal exactly for processes that can reach each other through memory and abstract sockets: host name, running
// kernel and network namespace. Containers with a name of their own are hosts of their own.
[[nodiscard]] std::string host_key();

}  // namespace kolo::cluster
