#pragma once
// Several texts as one line, and back: what ranks tell each other about themselves.
#include <string>
#include <string_view>
#include <vector>

namespace kolo::base {

// Fields between tabs; a tab or the end of a line inside a field becomes a blank.
[[nodiscard]] std::string join_fields(std::vector<std::string> fields);
[[nodiscard]] std::vector<std::string> split_fields(std::string_view line);

}  // namespace kolo::base
