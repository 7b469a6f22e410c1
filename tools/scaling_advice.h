#pragma once
// Sentences that name what limits a measured program and what to try, with the numbers that they rest on.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kolo::tools {

// `results`: an object as in results.json. Each element is one to four sentences; the most important comes first.
// At most eight elements; none without rows.
[[nodiscard]] std::vector<std::string> advice(const nlohmann::ordered_json& results);

}  // namespace kolo::tools
