#pragma once
#include <chrono>

namespace kolo::cluster {

// How long the first conversation may take: ranks may start minutes apart on a busy cluster.
inline constexpr std::chrono::milliseconds kBootstrapTimeout{std::chrono::minutes(5)};
// How long what follows may take at least, once all ranks are here: short deadlines are for collectives.
inline constexpr std::chrono::milliseconds kSetUpTimeout{std::chrono::minutes(1)};

}  // namespace kolo::cluster
