#pragma once
#include <chrono>

namespace kolo::cluster {

// How long the first conversation may take: ranks may start minutes apart on a busy cluster.
inline constexpr std::chrono::milliseconds kBootstrapTimeout{std::chrono::minutes(5)};

}  // namespace kolo::cluster
