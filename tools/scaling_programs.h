#pragma once
// Programs that `kolo scaling` starts beside the measured one.
#include <initializer_list>
#include <string>
#include <vector>

namespace kolo::tools {

// Returns the first of the files that exists; empty: none. Paths are relative to the folder of this program, which is
// the `bin` of an installation or of a build.
[[nodiscard]] std::string find_beside_program(std::initializer_list<const char*> paths);

struct Finished {
  bool succeeded = false;
  std::string output;  // standard output and error, or why the program could not be started
};
// Runs a command to its end, without input. A command that takes longer than a minute is killed.
[[nodiscard]] Finished run_to_end(const std::vector<std::string>& words);

}  // namespace kolo::tools
