#pragma once
// The report of `kolo scaling` as one HTML file that loads nothing. Sentences and tables are HTML; report.js draws the
// charts with Chart.js.
#include <nlohmann/json.hpp>
#include <string>

namespace kolo::tools {

// `results`: an object as in results.json; rows and fields may be missing.
[[nodiscard]] std::string report_page(const nlohmann::ordered_json& results);
// Throws UsageError if the results have no row in common.
[[nodiscard]] std::string compare_page(const nlohmann::ordered_json& before, const nlohmann::ordered_json& after);

}  // namespace kolo::tools
