#include "scaling_programs.h"

#include <sys/wait.h>
#include <unistd.h>

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
  Finished finished;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(child.out.get(), buffer, sizeof buffer)) > 0;) {
    finished.output.append(buffer, static_cast<std::size_t>(got));
  }
  int status = 0;
  ::waitpid(child.pid, &status, 0);
  finished.succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return finished;
}

}  // namespace kolo::tools
