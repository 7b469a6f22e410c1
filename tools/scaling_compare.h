#pragma once
// Compares two results.json: the change of each row, and whether the change exceeds noise.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scaling_statistics.h"

namespace kolo::tools {

struct RowChange {
  std::string name;               // "2 ranks, sync off"
  nlohmann::ordered_json before;  // step_ms
  nlohmann::ordered_json after;
  Interval ratio;    // of the steps, after / before
  std::string text;  // "5.0 % slower", "no change beyond noise"
};

struct Comparison {
  std::vector<RowChange> rows;     // that both results have
  std::vector<std::string> notes;  // other rows, and differences of command and environment
};

// Throws UsageError if the results have no row in common.
[[nodiscard]] Comparison comparison_of(const nlohmann::ordered_json& before, const nlohmann::ordered_json& after);
// For a terminal.
[[nodiscard]] std::string table_of(const Comparison& comparison);

}  // namespace kolo::tools
