#pragma once
// Numbers and names of results.json as text, and parts of texts.
#include <nlohmann/json.hpp>
#include <string>

#include "scaling_statistics.h"

namespace kolo::tools {

[[nodiscard]] std::string printed(const char* format, double value);
// "912 ms", "45.2 ms", "0.31 ms"
[[nodiscard]] std::string ms_text(double ms);
// "102 MB", "1.5 MB", "0.13 kB"
[[nodiscard]] std::string bytes_text(double bytes);
[[nodiscard]] std::string first_line(const std::string& text);
// 0 if the text does not begin with a number.
[[nodiscard]] int number_or_zero(const std::string& text);
// Blanks before the text, or behind it if `width` is negative; at least one.
[[nodiscard]] std::string padded(const std::string& text, int width);

// `high` is null if the interval has no upper end.
[[nodiscard]] nlohmann::ordered_json json_of(const Interval& interval);
// "0.95 [0.93, 0.97]"; without an upper end "0.95 [?]".
[[nodiscard]] std::string interval_text(const nlohmann::ordered_json& interval, const char* format);
// "2 ranks, sync off"
[[nodiscard]] std::string name_of(const nlohmann::ordered_json& row);

}  // namespace kolo::tools
