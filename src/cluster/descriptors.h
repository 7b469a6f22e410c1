#pragma once
// How many files, sockets and the like this process may have open.
#include <cstddef>
#include <string>

namespace kolo::cluster {

// Raises the soft limit to `needed`, as far as the hard one allows. Never lowers it.
void make_room_for_descriptors(std::size_t needed) noexcept;

// Why a call may have failed whose error does not say: nearly as many are open as may be. Empty: not so.
[[nodiscard]] std::string descriptor_trouble();

}  // namespace kolo::cluster
