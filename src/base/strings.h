#pragma once
#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/types.h"

namespace kolo::base {

[[nodiscard]] std::string join(std::span<const std::string_view> parts, std::string_view separator);
// The same of a vector or a set of strings.
template <class Strings>
requires std::same_as<typename Strings::value_type, std::string>
[[nodiscard]] std::string join(const Strings& parts, std::string_view separator) {
  const std::vector<std::string_view> views(parts.begin(), parts.end());
  return join(std::span(views), separator);
}
// How many insertions, removals and replacements of a character make one text of the other.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);
// The candidate of smallest edit distance, the first of equals; empty if there are no candidates.
[[nodiscard]] std::string_view nearest(std::string_view text, std::span<const std::string_view> candidates);
// "1 rank", "2 ranks".
[[nodiscard]] std::string counted(std::size_t number, std::string_view noun);
// "rank 3", "ranks 0, 2"; of more than 16 the first ones, "and 9 more".
[[nodiscard]] std::string ranks_text(std::span<const Rank> ranks);
[[nodiscard]] std::string to_upper(std::string_view text);

}  // namespace kolo::base
