#include "base/environment.h"

#include <unistd.h>

#include <cstdlib>
#include <mutex>

namespace kolo::base {
namespace {

// The C library lets nobody read the environment while another thread changes it, and there is one environment a
// process: so there is one lock. It orders what kolo does; other libraries ask without it.
std::mutex& environment_lock() {
  static std::mutex lock;
  return lock;
}

}  // namespace

std::optional<std::string> get_environment(const std::string& name) {
  const std::scoped_lock lock(environment_lock());
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

std::map<std::string, std::string> get_environment_with_prefix(std::string_view prefix) {
  std::map<std::string, std::string> found;
  const std::scoped_lock lock(environment_lock());
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || !text.starts_with(prefix) || equals < prefix.size()) continue;
    found.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return found;
}

void set_environment(const std::string& name, const std::string& value) {
  const std::scoped_lock lock(environment_lock());
  ::setenv(name.c_str(), value.c_str(), 1);
}

void unset_environment(const std::string& name) {
  const std::scoped_lock lock(environment_lock());
  ::unsetenv(name.c_str());
}

}  // namespace kolo::base
