#pragma once
// Looks at the machine, for `kolo run`.
#include "run_line.h"

namespace kolo::tools {

// All but `scratch`.
[[nodiscard]] Surroundings look_around();
// The first host that is not this one, of the options' list or file; empty when all ranks are here.
[[nodiscard]] std::string first_remote_host(const RunOptions& options);
// Throws std::runtime_error, with what to install, when `mpirun` cannot be run or is not Open MPI's.
void check_mpirun(const std::string& mpirun);
// 32 hexadecimal digits that nobody can guess.
[[nodiscard]] std::string random_name();

}  // namespace kolo::tools
