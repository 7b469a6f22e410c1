#pragma once
// The data of the charts in the report of `kolo scaling`. tools/report/report.js draws them. An interval is an object
// as in results.json, or null if the row was not measured.
#include <nlohmann/json.hpp>

#include "scaling_compare.h"

namespace kolo::tools {

//   efficiency   series: program ("kolo", or a peer) and program_name, group (an index) and group_name, points
//                points: ranks, efficiency
//   parts        names; rows: name, step, values (ms). Backward beyond that of sync off is a part of its own.
//   peers        counts; series: name, program, steps (one for each count)
[[nodiscard]] nlohmann::ordered_json charts_of(const nlohmann::ordered_json& results);
//   changes      names, before, after
[[nodiscard]] nlohmann::ordered_json charts_of(const Comparison& comparison);

}  // namespace kolo::tools
