#include "scaling_charts.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "scaling_rows.h"
#include "scaling_text.h"

namespace kolo::tools {
namespace {

using nlohmann::ordered_json;

struct Part {
  const char* name;   // for people
  const char* field;  // of results.json
};
constexpr std::array<Part, 6> kParts{{{"before first gradient", "before_first_gradient_ms"},
                                      {"backward", "backward_ms"},
                                      {"backward, slowed by reductions", ""},
                                      {"exposed communication", "exposed_ms"},
                                      {"optimizer", "optimizer_ms"},
                                      {"other", "other_ms"}}};
constexpr std::size_t kBackward = 1;
constexpr std::size_t kSlowedBackward = 2;  // backward beyond that of the same ranks with sync off

struct Program {
  std::string key;    // "kolo", or the peer
  std::string title;  // for people
  [[nodiscard]] bool wrote(const ResultRow& row) const { return key == "kolo" ? is_default(row) : peer_of(row) == key; }
};

// kolo first, and the peers in the order of their rows.
std::vector<Program> programs_of(const ordered_json& results) {
  std::vector<Program> programs{{"kolo", "kolo"}};
  for (const ResultRow& row : results.at("rows")) {
    const std::string peer = peer_of(row);
    const bool known = std::ranges::any_of(programs, [&](const Program& each) { return each.key == peer; });
    if (!peer.empty() && !known) programs.push_back({peer, row.at("variant")});
  }
  return programs;
}

// Rows of a group differ in their number of ranks only.
struct Group {
  bool emulated = false;
  std::string rate;
  [[nodiscard]] bool operator==(const Group&) const = default;
  [[nodiscard]] std::string name() const {
    if (!emulated) return "this host";
    return "emulated hosts" + (rate.empty() ? "" : ", " + rate);
  }
};

Group group_of(const ResultRow& row) { return {row.at("hosts").get<int>() > 0, row.at("rate")}; }

// Without those that have one rank only, unless there is no other.
std::vector<Group> groups_of(const ordered_json& results) {
  std::vector<Group> groups;
  for (const ResultRow& row : results.at("rows")) {
    const Group group = group_of(row);
    if (row.at("ranks") > 1 && std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
  }
  if (groups.empty()) groups.emplace_back();
  return groups;
}

// Each series begins with one rank of the program, to which its efficiency refers.
ordered_json points_of(const ordered_json& results, const Program& program, const Group& group) {
  ordered_json points = ordered_json::array();
  const auto is_one = [&](const ResultRow& row) { return row.at("ranks") == 1 && program.wrote(row); };
  if (find_row(results, is_one) != nullptr) points.push_back({{"ranks", 1}, {"efficiency", json_of({1, 1, 1})}});
  for (const ResultRow& row : results.at("rows")) {
    if (!program.wrote(row) || group_of(row) != group || !row.contains("efficiency_to_one_rank")) continue;
    points.push_back({{"ranks", row.at("ranks")}, {"efficiency", row.at("efficiency_to_one_rank")}});
  }
  return points;
}

ordered_json efficiency_of(const ordered_json& results) {
  const std::vector<Group> groups = groups_of(results);
  ordered_json series = ordered_json::array();
  for (const Program& program : programs_of(results)) {
    for (std::size_t i = 0; i < groups.size(); ++i) {
      ordered_json points = points_of(results, program, groups[i]);
      if (points.size() < 2 && (program.key != "kolo" || i > 0)) continue;  // not measured there
      series.push_back({{"program", program.key},
                        {"program_name", program.title},
                        {"group", i},
                        {"group_name", groups[i].name()},
                        {"points", std::move(points)}});
    }
  }
  return {{"series", std::move(series)}};
}

ordered_json parts_of(const ordered_json& results) {
  ordered_json parts{{"names", ordered_json::array()}, {"rows", ordered_json::array()}};
  for (const Part& part : kParts) parts["names"].push_back(part.name);
  for (const ResultRow& row : results.at("rows")) {
    if (!is_default(row) && !is_sync_off(row)) continue;
    ordered_json values = ordered_json::array();
    for (const Part& part : kParts) values.push_back(part_ms(row, part.field).value_or(0));
    const ResultRow* const sync_off =
        find_row(results, [&](const ResultRow& each) { return is_sync_off(each) && have_same_ranks(each, row); });
    const double backward = values[kBackward];
    const double alone = sync_off == nullptr ? backward : part_ms(*sync_off, "backward_ms").value_or(backward);
    values[kBackward] = std::min(backward, alone);
    values[kSlowedBackward] = std::max(0.0, backward - alone);
    parts["rows"].push_back({{"name", name_of(row)}, {"step", row.at("step_ms")}, {"values", std::move(values)}});
  }
  return parts;
}

ordered_json peers_of(const ordered_json& results) {
  ordered_json peers{{"counts", ordered_json::array()}, {"series", ordered_json::array()}};
  std::vector<const ResultRow*> counts;  // a row of each count that has a peer
  for (const ResultRow& row : results.at("rows")) {
    const bool known = std::ranges::any_of(counts, [&](const auto* each) { return have_same_ranks(*each, row); });
    if (!peer_of(row).empty() && !known) counts.push_back(&row);
  }
  if (counts.empty()) return peers;
  for (const ResultRow* count : counts) peers["counts"].push_back(count->at("name"));
  for (const Program& program : programs_of(results)) {
    ordered_json steps = ordered_json::array();
    for (const ResultRow* count : counts) {
      const ResultRow* const row = find_row(
          results, [&](const ResultRow& each) { return program.wrote(each) && have_same_ranks(each, *count); });
      steps.push_back(row == nullptr ? ordered_json() : row->at("step_ms"));
    }
    peers["series"].push_back({{"name", program.title}, {"program", program.key}, {"steps", std::move(steps)}});
  }
  return peers;
}

}  // namespace

ordered_json charts_of(const ordered_json& results) {
  return {{"efficiency", efficiency_of(results)}, {"parts", parts_of(results)}, {"peers", peers_of(results)}};
}

ordered_json charts_of(const Comparison& comparison) {
  ordered_json changes{
      {"names", ordered_json::array()}, {"before", ordered_json::array()}, {"after", ordered_json::array()}};
  for (const RowChange& row : comparison.rows) {
    changes["names"].push_back(row.name);
    changes["before"].push_back(row.before);
    changes["after"].push_back(row.after);
  }
  return {{"changes", std::move(changes)}};
}

}  // namespace kolo::tools
