#pragma once
// Several texts as one line, and back: what ranks tell each other about themselves.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kolo::base {

// Fields between tabs; a tab or the end of a line inside a field becomes a blank.
[[nodiscard]] std::string join_fields(std::vector<std::string> fields);
[[nodiscard]] std::vector<std::string> split_fields(std::string_view line);

// "rank 3 (host b)".
[[nodiscard]] std::string rank_text(std::size_t rank, const std::string& host);

// What is wrong where, of ranks that say their `host` and their `trouble`: of the first eight. Empty: nothing.
template <class Facts>
[[nodiscard]] std::string troubles_of(const std::vector<Facts>& ranks) {
  constexpr std::size_t kMost = 8;
  std::string text;
  std::size_t troubles = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].trouble.empty() || ++troubles > kMost) continue;
    text += (text.empty() ? "" : "; ") + rank_text(r, ranks[r].host) + ": " + ranks[r].trouble;
  }
  if (troubles > kMost) text += "; and " + std::to_string(troubles - kMost) + " ranks more";
  return text;
}

}  // namespace kolo::base
