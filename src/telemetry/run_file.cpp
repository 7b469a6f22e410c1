#include "telemetry/run_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/system_error.h"
#include "kolo/error.h"

namespace kolo::telemetry {

base::UniqueFd open_run_file(const std::string& what, const std::string& path, OpenMode mode) {
  base::UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file) {
    throw UsageError(what + ": cannot open " + path + ": " + base::errno_text(errno) +
                     ". Its folder must exist and be writable");
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return file;  // a pipe or a device is not replaced
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw UsageError(what + ": another Context writes to " + path + ". Give each Context its own file, in Config");
  }
  if (mode == OpenMode::replace && ::ftruncate(file.get(), 0) != 0) {
    throw UsageError(what + ": cannot replace " + path + ": " + base::errno_text(errno));
  }
  return file;
}

std::string head_of(std::string_view kind, const RunFacts& facts) {
  nlohmann::json head{{"kind", kind},
                      {"rank", facts.rank},
                      {"size", facts.size},
                      {"host", facts.host},
                      {"process", ::getpid()},
                      {"clock_offset_us", 1e-3 * static_cast<double>(facts.clock_offset_ns)},
                      {"clock_error_us", 1e-3 * static_cast<double>(facts.clock_error_ns)}};
  for (const auto& [name, value] : facts.facts) head["facts"][name] = value;
  return head.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string quoted(std::string_view text) {
  const bool plain = std::ranges::all_of(
      text, [](char letter) { return letter >= ' ' && letter <= '~' && letter != '"' && letter != '\\'; });
  if (plain) return "\"" + std::string(text) + "\"";
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string microseconds_text(std::int64_t ns) {
  char text[32];
  const auto size = std::snprintf(text, sizeof text, "%s%lld.%03lld", ns < 0 ? "-" : "",
                                  static_cast<long long>(ns < 0 ? -(ns / 1000) : ns / 1000),
                                  static_cast<long long>((ns < 0 ? -ns : ns) % 1000));
  return {text, static_cast<std::size_t>(size)};
}

int write_all(int file, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace kolo::telemetry
