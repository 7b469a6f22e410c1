#include "base/environment.h"

#include <unistd.h>

#include <cstdlib>

namespace kolo::base {

std::optional<std::string> get_environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

std::map<std::string, std::string> get_environment_with_prefix(std::string_view prefix) {
  std::map<std::string, std::string> found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || !text.starts_with(prefix) || equals < prefix.size()) continue;
    found.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return found;
}

void set_environment(const std::string& name, const std::string& value) { ::setenv(name.c_str(), value.c_str(), 1); }

void unset_environment(const std::string& name) { ::unsetenv(name.c_str()); }

}  // namespace kolo::base
