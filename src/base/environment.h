#pragma once
// The only door to the process's environment. What kolo's own variables mean is in runtime/config_table.cpp.
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace kolo::base {

[[nodiscard]] std::optional<std::string> get_environment(const std::string& name);
// Every variable whose name starts with `prefix`, by its whole name.
[[nodiscard]] std::map<std::string, std::string> get_environment_with_prefix(std::string_view prefix);
// For libraries that read it in this process, and for children. Safe beside everything in this header; against
// getenv() in code that is not kolo's there is no protection in any process.
void set_environment(const std::string& name, const std::string& value);
void unset_environment(const std::string& name);

}  // namespace kolo::base
