#include "scaling_rows.h"

#include <algorithm>

#include "scaling_plan.h"
#include "scaling_text.h"

namespace kolo::tools {

bool is_default(const ResultRow& row) { return row.at("variant") == "" && peer_of(row).empty(); }

bool is_sync_off(const ResultRow& row) { return row.at("variant") == kSyncOff && peer_of(row).empty(); }

std::string peer_of(const ResultRow& row) { return row.value("peer", ""); }

bool have_same_ranks(const ResultRow& a, const ResultRow& b) {
  return a.at("ranks") == b.at("ranks") && a.at("hosts") == b.at("hosts") && a.at("rate") == b.at("rate");
}

double step_ms(const ResultRow& row) { return row.at("step_ms").at("value"); }

std::optional<double> part_ms(const ResultRow& row, const char* name) {
  const auto part = row.at("parts").find(name);
  if (part == row.at("parts").end() || !part->is_number()) return std::nullopt;
  return part->get<double>();
}

std::string fact_of(const ResultRow& row, const char* name) { return row.at("facts").value(name, ""); }

int number_of(const ResultRow& row, const char* fact) { return number_or_zero(fact_of(row, fact)); }

std::string note_numbers(const ResultRow& row, std::vector<std::string>& notes) {
  std::string numbers;
  for (const auto& warning : row.at("warnings")) {
    const std::string text = warning;
    auto known = std::ranges::find(notes, text);
    if (known == notes.end()) known = notes.insert(notes.end(), text);
    numbers += " (" + std::to_string(known - notes.begin() + 1) + ")";
  }
  return numbers;
}

std::vector<std::string> numbered(const std::vector<std::string>& notes) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < notes.size(); ++i) lines.push_back("(" + std::to_string(i + 1) + ") " + notes[i]);
  return lines;
}

bool is_above(const nlohmann::ordered_json& a, const nlohmann::ordered_json& b) {
  return a.at("high").is_number() && b.at("high").is_number() && a.at("low").get<double>() > b.at("high").get<double>();
}

}  // namespace kolo::tools
