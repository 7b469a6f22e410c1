#include "scaling_report.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>
#include <vector>

#include "report/files.h"
#include "run_line.h"
#include "scaling_advice.h"
#include "scaling_charts.h"
#include "scaling_compare.h"
#include "scaling_rows.h"
#include "scaling_text.h"

namespace kolo::tools {
namespace {

using nlohmann::ordered_json;

std::string escaped(std::string_view text) {
  std::string html;
  for (const char c : text) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

// JSON that a script element can hold: no text in it can end the element, because it has no `<`.
std::string script_json(const ordered_json& data) {
  std::string text;
  for (const char c : data.dump(-1, ' ', false, ordered_json::error_handler_t::replace)) {
    text += c == '<' ? "\\u003c" : std::string(1, c);
  }
  return text;
}

// Puts values in the place of {{names}}. Braces within values have no effect.
std::string filled(std::string_view page, const std::map<std::string, std::string, std::less<>>& values) {
  std::string text;
  std::size_t at = 0;
  for (std::size_t open = 0; (open = page.find("{{", at)) != std::string_view::npos;) {
    const std::size_t close = page.find("}}", open);
    text += page.substr(at, open - at);
    text += values.find(page.substr(open + 2, close - open - 2))->second;
    at = close + 2;
  }
  return text.append(page.substr(at));
}

std::string list_items(const std::vector<std::string>& texts) {
  std::string html;
  for (const std::string& text : texts) html += "<li>" + escaped(text) + "</li>\n";
  return html;
}

std::string table_line(const std::vector<std::string>& cells, const std::string& tag) {
  std::string html = "<tr>";
  for (const std::string& cell : cells) html += "<" + tag + ">" + escaped(cell) + "</" + tag + ">";
  return html + "</tr>\n";
}

std::string table(const std::vector<std::string>& heads, const std::vector<std::vector<std::string>>& lines) {
  std::string html = "<table>\n<thead>" + table_line(heads, "th") + "</thead>\n<tbody>\n";
  for (const auto& line : lines) html += table_line(line, "td");
  return html + "</tbody>\n</table>\n";
}

std::string part_text(const ResultRow& row, const char* name) {
  const auto part = part_ms(row, name);
  return part ? printed(*part >= 100 ? "%.0f" : "%.3g", *part) : "";
}

// `notes` gets the warnings of the rows, and a row their numbers behind its name.
std::string rows_table(const ordered_json& results, std::vector<std::string>& notes) {
  std::vector<std::vector<std::string>> lines;
  for (const ResultRow& row : results.at("rows")) {
    std::vector<std::string> line{name_of(row) + note_numbers(row, notes), interval_text(row.at("step_ms"), "%.4g"),
                                  printed("%.4g", row.at("step_ms_p95"))};
    for (const char* part : {"before_first_gradient_ms", "backward_ms", "exposed_ms", "optimizer_ms", "other_ms",
                             "communication_ms", "slowest_wait_ms"}) {
      line.push_back(part_text(row, part));
    }
    line.push_back(row.contains("items_per_s") ? printed("%.4g", row.at("items_per_s")) : "");
    for (const char* ratio : {"efficiency_to_one_rank", "efficiency_to_sync_off", "step_to_default"}) {
      line.push_back(row.contains(ratio) ? interval_text(row.at(ratio), "%.3f") : "");
    }
    lines.push_back(std::move(line));
  }
  return table({"", "step ms [95 %]", "p95", "before", "backward", "exposed", "optimizer", "other", "(comm.)",
                "(slowest)", "items/s", "eff. to 1 rank", "to sync off", "step / default"},
               lines);
}

// The card of all rows; `lines` is a table.
std::string rows_card(const std::string& lines, const std::vector<std::string>& notes) {
  return "<section class=\"card\" id=\"rows\">\n<h2>All rows</h2>\n<div class=\"scroll\">\n" + lines +
         "</div>\n<ul>\n" + list_items(notes) + "</ul>\n</section>\n";
}

// The card of the slowest ranks; empty if no row has one.
std::string slowest_card(const ordered_json& results) {
  std::vector<std::vector<std::string>> lines;
  for (const ResultRow& row : results.at("rows")) {
    if (!is_default(row) || !row.contains("slowest_rank")) continue;
    const ordered_json& slowest = row.at("slowest_rank");
    lines.push_back({name_of(row), slowest.at("rank").dump(),
                     printed("%.0f %%", 100 * slowest.at("share_of_steps").get<double>()),
                     part_text(row, "slowest_wait_ms")});
  }
  if (lines.empty()) return "";
  return "<section class=\"card three\" id=\"slowest\">\n<h2>Slowest rank</h2>\n<div class=\"scroll\">\n" +
         table({"", "rank", "last in", "wait ms"}, lines) + "</div>\n</section>\n";
}

std::string environment_table(const ordered_json& environment) {
  std::string html = "<table class=\"texts\">\n<tbody>\n";
  for (const auto& [name, value] : environment.items()) html += table_line({name, value.get<std::string>()}, "td");
  return html + "</tbody>\n</table>\n";
}

std::vector<std::string> missing(const ordered_json& results) {
  std::vector<std::string> texts;
  for (const ResultRow& row : results.at("rows")) {
    const auto runs = row.at("runs").size();
    if (runs >= results.at("repeat").get<std::size_t>()) continue;
    texts.push_back(name_of(row) + ": " + std::to_string(runs) + " of " + results.at("repeat").dump() + " runs");
  }
  for (const auto& name : results.value("missing_rows", std::vector<std::string>())) {
    texts.push_back(name + ": 0 of " + results.at("repeat").dump() + " runs");
  }
  const ordered_json peers = results.value("missing_peers", ordered_json::object());
  for (const auto& [name, text] : peers.items()) {
    texts.push_back("Not measured: " + name + ". " + text.get<std::string>());
  }
  return texts;
}

std::string command_text(const ordered_json& results) {
  return shell_words(results.at("command").get<std::vector<std::string>>());
}

std::string title_of(const ordered_json& results, const std::string& what) {
  const auto words = results.at("command").get<std::vector<std::string>>();
  return (words.empty() ? "" : std::filesystem::path(words.front()).filename().string() + ": ") + what;
}

std::string page(const std::string& title, const std::string& subtitle, const std::string& body,
                 const ordered_json& data) {
  return filled(kPageHtml, {{"title", escaped(title)},
                            {"subtitle", escaped(subtitle)},
                            {"body", body},
                            {"data", script_json(data)},
                            {"css", kReportCss},
                            {"chart_js", kChartJs},
                            {"report_js", kReportJs}});
}

std::string summary(const Comparison& comparison) {
  const auto count = [&](const char* word) {
    return std::to_string(
        std::ranges::count_if(comparison.rows, [&](const RowChange& row) { return row.text.ends_with(word); }));
  };
  return "Rows that both results have: " + std::to_string(comparison.rows.size()) + ". Faster: " + count("faster") +
         ". Slower: " + count("slower") + ".";
}

}  // namespace

std::string report_page(const ordered_json& results) {
  std::vector<std::string> notes;
  const std::string rows = rows_table(results, notes);
  std::vector<std::string> all_notes = numbered(notes);
  for (std::string& text : missing(results)) all_notes.push_back(std::move(text));
  const std::string body = filled(kReportHtml, {{"advice", list_items(advice(results))},
                                                {"slowest", slowest_card(results)},
                                                {"rows", rows_card(rows, all_notes)},
                                                {"command", escaped(command_text(results))},
                                                {"environment", environment_table(results.at("environment"))}});
  const int counted_steps = results.at("steps").get<int>() - results.at("warmup").get<int>();
  std::string subtitle = results.at("repeat").dump() + " runs of " + std::to_string(counted_steps) + " steps";
  for (const char* name : {"cpu", "kolo", "libtorch"}) {
    const std::string value = results.at("environment").value(name, "");
    if (!value.empty())
      subtitle += std::string(", ") + (std::string_view(name) == "cpu" ? "" : name + std::string(" ")) + value;
  }
  return page(title_of(results, results.at("scaling").get<std::string>() + " scaling"), subtitle, body,
              charts_of(results));
}

std::string compare_page(const ordered_json& before, const ordered_json& after) {
  const Comparison comparison = comparison_of(before, after);
  std::vector<std::vector<std::string>> lines;
  std::vector<std::string> sentences{summary(comparison)};
  for (const RowChange& row : comparison.rows) {
    lines.push_back({row.name, interval_text(row.before, "%.4g"), interval_text(row.after, "%.4g"),
                     interval_text(json_of(row.ratio), "%.3f"), row.text});
    const bool changed = row.text.ends_with("faster") || row.text.ends_with("slower");
    if (changed) sentences.push_back(row.name + ": " + row.text + ".");
  }
  const std::string body = filled(
      kCompareHtml, {{"advice", list_items(sentences)},
                     {"rows", rows_card(table({"", "before ms [95 %]", "after ms [95 %]", "ratio [95 %]", ""}, lines),
                                        comparison.notes)},
                     {"command", escaped(command_text(after))}});
  return page(title_of(after, "before and after"), "Two results of kolo scaling", body, charts_of(comparison));
}

}  // namespace kolo::tools
