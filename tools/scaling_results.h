#pragma once
// Results of `kolo scaling`: results.json and the tables.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scaling_log.h"
#include "scaling_plan.h"
#include "scaling_statistics.h"

namespace kolo::tools {

struct RowRuns {
  Row row;
  std::vector<RunLog> runs;  // one for each repetition that is complete
};

// Versions and machine, by name.
using Environment = std::map<std::string, std::string>;
[[nodiscard]] Environment describe_machine();
// The active ports in `folder` (/sys/class/infiniband) with their rates: "mlx5_0 port 1: 200 Gb/sec (4X HDR)".
[[nodiscard]] std::string active_infiniband(const std::filesystem::path& folder);

// results.json (docs/formats.md). Rows without runs are left out. Facts of the first step log join the environment.
[[nodiscard]] nlohmann::ordered_json results_of(const ScalingOptions& options, const std::vector<RowRuns>& rows,
                                                const Environment& environment);
// The rows of results.json as a table for a terminal, with notes and advice below it.
[[nodiscard]] std::string table_of(const nlohmann::ordered_json& results);

// FOLDER/results.json. Throws UsageError that names the file.
[[nodiscard]] nlohmann::ordered_json read_results(const std::filesystem::path& folder);
// Writes a file under another name first, so that no reader sees half of it. Throws UsageError.
void write_file(const std::filesystem::path& path, const std::string& text);

}  // namespace kolo::tools
