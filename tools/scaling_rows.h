#pragma once
// Queries on the rows of results.json.
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kolo::tools {

using ResultRow = nlohmann::ordered_json;

// A row of kolo with its defaults.
[[nodiscard]] bool is_default(const ResultRow& row);
[[nodiscard]] bool is_sync_off(const ResultRow& row);
// "ddp", ...; empty for kolo.
[[nodiscard]] std::string peer_of(const ResultRow& row);
// Both have the same ranks, hosts and links.
[[nodiscard]] bool have_same_ranks(const ResultRow& a, const ResultRow& b);

[[nodiscard]] double step_ms(const ResultRow& row);
// A part of the step, such as "exposed_ms"; empty if it was not measured.
[[nodiscard]] std::optional<double> part_ms(const ResultRow& row, const char* name);
// Empty if the log of the row has no such fact.
[[nodiscard]] std::string fact_of(const ResultRow& row, const char* name);
// 0 if there is no such fact, or it is no number.
[[nodiscard]] int number_of(const ResultRow& row, const char* fact);
// Returns true if interval `a` lies above interval `b`; false if an interval has no upper end.
[[nodiscard]] bool is_above(const nlohmann::ordered_json& a, const nlohmann::ordered_json& b);

// " (1) (3)": the places of the row's warnings in `notes`, which gets those that it lacks.
[[nodiscard]] std::string note_numbers(const ResultRow& row, std::vector<std::string>& notes);
// "(1) text" for each note.
[[nodiscard]] std::vector<std::string> numbered(const std::vector<std::string>& notes);

// The first row for which `is_wanted` returns true; null if there is none.
template <class IsWanted>
[[nodiscard]] const ResultRow* find_row(const nlohmann::ordered_json& results, IsWanted is_wanted) {
  for (const ResultRow& row : results.at("rows")) {
    if (is_wanted(row)) return &row;
  }
  return nullptr;
}

// The first of the wanted rows with the greatest `order_of(row)`; null if there is none.
template <class IsWanted, class OrderOf>
[[nodiscard]] const ResultRow* find_greatest(const nlohmann::ordered_json& results, IsWanted is_wanted,
                                             OrderOf order_of) {
  const ResultRow* greatest = nullptr;
  for (const ResultRow& row : results.at("rows")) {
    if (is_wanted(row) && (greatest == nullptr || order_of(row) > order_of(*greatest))) greatest = &row;
  }
  return greatest;
}

}  // namespace kolo::tools
