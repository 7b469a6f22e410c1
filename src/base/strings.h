#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace kolo::base {

[[nodiscard]] std::string join(std::span<const std::string_view> parts, std::string_view separator);
// How many insertions, removals and replacements of a character make one text of the other.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);
// The candidate of smallest edit distance, the first of equals; empty if there are no candidates.
[[nodiscard]] std::string_view nearest(std::string_view text, std::span<const std::string_view> candidates);
[[nodiscard]] std::string to_upper(std::string_view text);

}  // namespace kolo::base
