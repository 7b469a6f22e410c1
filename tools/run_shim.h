#pragma once
// The supervisor of one rank: `kolo rank-shim -- PROGRAM ARGS...`, started by mpirun in the program's place.
//
//   mpirun or its daemon --> supervisor --> program --> whatever it starts
//                                |
//                                +-- TCP --> kolo run
//
// It passes the program's output on, tells how the program ended, and sees to it that nothing which the program started
// is left. When the launcher's daemon dies, or `kolo run` is gone or out of reach, it ends the program. The program is
// MPI's process as without it: what MPI needs to know is in the environment, which it inherits.
#include <string>
#include <vector>

namespace kolo::tools {

// `words`: the program and its arguments. Returns the status to exit with: 0 whatever the program did, because mpirun
// is not the one who judges.
[[nodiscard]] int run_rank_shim(const std::vector<std::string>& words);

}  // namespace kolo::tools
