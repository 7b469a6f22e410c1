#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace kolo {

// "rank 1"; "ranks 1, 2, 3 and 9 more" if there are more than eight.
[[nodiscard]] inline std::string ranks_text(const std::vector<std::size_t>& ranks) {
  constexpr std::size_t kShown = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < kShown; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  if (ranks.size() > kShown) text += " and " + std::to_string(ranks.size() - kShown) + " more";
  return text;
}

}  // namespace kolo
