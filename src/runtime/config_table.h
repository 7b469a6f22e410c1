#pragma once
// Every KOLO_ variable as one row: its name, default, range and meaning, and how text becomes its field of Config.
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/bootstrap.h"
#include "kolo/config.h"

namespace kolo::runtime {

struct ConfigRow {
  std::string_view name;   // KOLO_<FIELD>
  std::string_view range;  // for people, as it stands in errors and in docs/configuration.md
  std::string_view meaning;
  // Sets the field, or returns false for text that the range does not allow.
  bool (*parse)(std::string_view text, Config& config);
  // The field as text that parse() reads back to the same value.
  std::string (*print)(const Config& config);
  bool same_on_all = false;  // ranks that differ would not do the same: agree_on_settings() finds them
  bool advanced = false;     // few programs change it: it stands in the second table of docs/configuration.md
};

[[nodiscard]] std::span<const ConfigRow> config_rows();

struct ParsedConfig {
  Config config;
  std::vector<std::string> warnings;  // variables that nobody reads
};

// `variables` by whole name; those that do not start with KOLO_ are ignored. Throws UsageError at the first bad value.
[[nodiscard]] ParsedConfig parse_config(const std::map<std::string, std::string>& variables);

// Throws UsageError at the first field whose value its variable could not have.
void check(const Config& config);

// Collective. Throws MismatchError on every rank where ranks differ in a variable that is to be the same on all
// (ConfigRow::same_on_all): naming it, two ranks and their values.
void agree_on_settings(cluster::Bootstrap& bootstrap, const Config& config);

}  // namespace kolo::runtime
