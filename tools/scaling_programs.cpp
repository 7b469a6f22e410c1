#include "scaling_programs.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "run_child.h"

namespace kolo::tools {

namespace fs = std::filesystem;

std::string find_beside_program(std::initializer_list<const char*> paths) {
  const fs::path bin = fs::read_symlink("/proc/self/exe").parent_path();
  for (const char* path : paths) {
    if (fs::exists(bin / path)) return fs::canonical(bin / path).string();
  }
  return {};
}

Finished run_to_end(const std::vector<std::string>& words) {
  ChildOptions options;
  options.words = words;
  options.merged = options.no_input = true;
  const Child child = start_child(options);
  if (child.pid == 0) return {false, start_error(child.error)};
  constexpr std::chrono::seconds kLimit{60};
  const auto limit = std::chrono::steady_clock::now() + kLimit;
  Finished finished;
  bool in_time = true;
  for (char buffer[4096];;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(limit - std::chrono::steady_clock::now()).count();
    pollfd source{child.out.get(), POLLIN, 0};
    in_time = left > 0 && ::poll(&source, 1, static_cast<int>(left)) != 0;
    const ssize_t got = in_time ? ::read(child.out.get(), buffer, sizeof buffer) : 0;
    if (got <= 0) break;
    finished.output.append(buffer, static_cast<std::size_t>(got));
  }
  if (!in_time) {
    finished.output += "no end within " + std::to_string(kLimit.count()) + " s";
    ::kill(-child.pid, SIGKILL);
  }
  int status = 0;
  ::waitpid(child.pid, &status, 0);
  finished.succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return finished;
}

}  // namespace kolo::tools
