#pragma once
#include <array>
#include <cstddef>
#include <string>

namespace kolo::cluster {

// A secret of one world, told over its Bootstrap: who knows it belongs to it.
using Token = std::array<std::byte, 16>;

// A new one, as text for Bootstrap::allgather(): no blanks. Empty when the system has no random numbers.
[[nodiscard]] std::string random_token();
// Throws BackendError for what random_token() does not give.
[[nodiscard]] Token parse_token(const std::string& text);
// Takes the same time wherever they differ.
[[nodiscard]] bool equal(const Token& a, const Token& b) noexcept;

}  // namespace kolo::cluster
