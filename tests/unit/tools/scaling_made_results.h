#pragma once
// Objects as in results.json, made by hand.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kolo::test {

using nlohmann::ordered_json;

// 5 % wide.
inline ordered_json interval(double value) {
  return {{"value", value}, {"low", 0.975 * value}, {"high", 1.025 * value}};
}

// A row of kolo with its defaults: a fifth of the step is backward, and the rest comes before it.
inline ordered_json made_row(int ranks, double step_ms) {
  const std::string name = std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
  return {{"key", "ranks" + std::to_string(ranks)},
          {"name", name},
          {"variant", ""},
          {"ranks", ranks},
          {"hosts", 0},
          {"rate", ""},
          {"environment", ordered_json::object()},
          {"facts", {{"local_cores", "8"}, {"local_ranks", std::to_string(ranks)}, {"device", "cpu"}}},
          {"step_ms", interval(step_ms)},
          {"step_ms_p95", 1.2 * step_ms},
          {"parts",
           {{"before_first_gradient_ms", 0.8 * step_ms},
            {"backward_ms", 0.2 * step_ms},
            {"exposed_ms", 0},
            {"optimizer_ms", 0},
            {"other_ms", 0},
            {"communication_ms", 0},
            {"slowest_wait_ms", 0}}},
          {"reduced_bytes", 100'000'000},
          {"warnings", ordered_json::array()},
          {"runs", {{step_ms}, {step_ms}, {step_ms}}}};
}

inline ordered_json sync_off_row(int ranks, double step_ms) {
  ordered_json row = made_row(ranks, step_ms);
  row["key"] = row["key"].get<std::string>() + "-sync-off";
  row["variant"] = "sync off";
  return row;
}

// On emulated hosts, a rank on each.
inline ordered_json hosts_row(int hosts, const std::string& rate, double step_ms) {
  ordered_json row = made_row(hosts, step_ms);
  row["key"] = "hosts" + std::to_string(hosts) + "-" + rate;
  row["name"] = std::to_string(hosts) + " hosts, " + rate;
  row["hosts"] = hosts;
  row["rate"] = rate;
  row["facts"]["local_ranks"] = "1";
  row["facts"]["local_cores"] = "1";
  return row;
}

// Beside `row`, `ratio` times as long.
inline ordered_json peer_row(ordered_json row, const std::string& peer, const std::string& title, double ratio) {
  row["key"] = row["key"].get<std::string>() + "-" + peer;
  row["peer"] = peer;
  row["variant"] = title;
  row["step_ms"] = interval(ratio * row["step_ms"]["value"].get<double>());
  row["step_to_default"] = interval(ratio);
  row["parts"].erase("communication_ms");
  row["parts"].erase("slowest_wait_ms");
  return row;
}

// The efficiency of weak scaling.
inline ordered_json with_efficiency(ordered_json row, double one_rank_ms) {
  row["efficiency_to_one_rank"] = interval(one_rank_ms / row["step_ms"]["value"].get<double>());
  return row;
}

inline ordered_json made_results(const std::vector<ordered_json>& rows) {
  return {{"kind", "kolo_scaling"},
          {"format", 1},
          {"command", {"./train", "--batch", "4"}},
          {"scaling", "weak"},
          {"steps", 100},
          {"warmup", 10},
          {"repeat", 3},
          {"environment", {{"cpu", "test"}}},
          {"rows", rows}};
}

}  // namespace kolo::test
