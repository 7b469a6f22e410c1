#pragma once
// A child with a process group of its own, its output in our hands, that does not outlive us: the program of one rank,
// or mpirun.
#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace kolo::tools {

struct Child {
  pid_t pid = 0;
  int error = 0;       // errno of a program that could not be started; pid is 0 then
  base::UniqueFd out;  // a terminal's, where there are any, so that programs write whole lines at once, as under mpirun
  base::UniqueFd err;
};

struct ChildOptions {
  std::vector<std::string> words;  // the program and its arguments
  bool merged = false;             // standard error goes where standard output goes, a pipe, and `err` stays empty
  bool no_input = false;           // standard input is at its end
  int death_signal = 0;            // what the child gets when we die
};
// Throws std::runtime_error when the system refuses pipes or processes.
[[nodiscard]] Child start_child(const ChildOptions& options);

// Makes orphans of our descendants our children, so that kill_descendants() finds them.
void adopt_orphans();
// Ends every process that descends from us, without regard, and collects what is left of them. The caller has SIGCHLD
// blocked. False when some are still there after `patience`, as one that waits for a device may be.
bool kill_descendants(std::chrono::milliseconds patience);

}  // namespace kolo::tools
