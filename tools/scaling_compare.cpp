#include "scaling_compare.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "kolo/error.h"
#include "scaling_text.h"

namespace kolo::tools {
namespace {

using nlohmann::ordered_json;

constexpr int kNameWidth = 34;

// Rows of `some` that `others` lack, by name.
std::string rows_without_match(const ordered_json& some, const ordered_json& others) {
  std::string names;
  for (const auto& row : some.at("rows")) {
    const bool there =
        std::ranges::any_of(others.at("rows"), [&](const auto& each) { return each.at("key") == row.at("key"); });
    if (!there) names += (names.empty() ? "" : "; ") + name_of(row);
  }
  return names;
}

std::vector<std::string> differences(const ordered_json& before, const ordered_json& after) {
  std::vector<std::string> texts;
  if (before.at("command") != after.at("command")) texts.emplace_back("the commands differ");
  std::set<std::string> names;
  for (const auto* results : {&before, &after}) {
    for (const auto& [name, value] : results->at("environment").items()) names.insert(name);
  }
  for (const std::string& name : names) {
    const ordered_json old = before.at("environment").value(name, ordered_json());
    const ordered_json now = after.at("environment").value(name, ordered_json());
    if (old != now) texts.push_back(name + " differs: " + old.dump() + " before, " + now.dump() + " after");
  }
  return texts;
}

std::vector<Block> blocks_in(const ordered_json& row) {
  std::vector<Block> blocks;
  for (const auto& run : row.at("runs")) {
    for (Block& block : blocks_of(run.get<std::vector<double>>())) blocks.push_back(std::move(block));
  }
  return blocks;
}

std::string change_text(const Interval& ratio) {
  if (!std::isfinite(ratio.high)) return "too few blocks to tell";
  if (ratio.low <= 1 && ratio.high >= 1) return "no change beyond noise";
  const double percent = 100 * std::abs(ratio.value - 1);
  return printed("%.1f", percent) + (ratio.value < 1 ? " % faster" : " % slower");
}

}  // namespace

Comparison comparison_of(const ordered_json& before, const ordered_json& after) {
  Comparison comparison;
  for (const auto& row : after.at("rows")) {
    const auto old = std::ranges::find_if(before.at("rows"),
                                          [&](const ordered_json& each) { return each.at("key") == row.at("key"); });
    if (old == before.at("rows").end()) continue;
    const Interval ratio = ratio_interval(blocks_in(row), blocks_in(*old));
    const auto pytorch = [](const ordered_json& of) { return of.value("facts", ordered_json()).value("pytorch", ""); };
    if (pytorch(*old) != pytorch(row)) {
      comparison.notes.push_back(name_of(row) + ": PyTorch " + pytorch(*old) + " before, " + pytorch(row) + " after");
    }
    comparison.rows.push_back({name_of(row), old->at("step_ms"), row.at("step_ms"), ratio, change_text(ratio)});
  }
  if (comparison.rows.empty()) {
    throw UsageError("the results have no row in common. Compare runs with equal --ranks or --hosts");
  }
  const std::string only_before = rows_without_match(before, after);
  const std::string only_after = rows_without_match(after, before);
  if (!only_before.empty()) comparison.notes.push_back("only before: " + only_before);
  if (!only_after.empty()) comparison.notes.push_back("only after: " + only_after);
  for (std::string& text : differences(before, after)) comparison.notes.push_back(std::move(text));
  return comparison;
}

std::string table_of(const Comparison& comparison) {
  std::string text =
      padded("", -kNameWidth) + padded("before ms", 11) + padded("after ms", 11) + padded("ratio [95 %]", 24) + "\n";
  for (const RowChange& row : comparison.rows) {
    text += padded(row.name, -kNameWidth) + padded(printed("%.4g", row.before.at("value")), 11) +
            padded(printed("%.4g", row.after.at("value")), 11) + padded(interval_text(json_of(row.ratio), "%.3f"), 24) +
            "  " + row.text + "\n";
  }
  for (const std::string& note : comparison.notes) text += note + "\n";
  return text;
}

}  // namespace kolo::tools
