#pragma once
// A child with a process group of its own, its output in our hands, that does not outlive us: the program of one rank,
// or mpirun.
#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace kolo::tools {

struct Child {
  pid_t pid = 0;
  // errno of a program that could not be started; pid is 0 then. ELIBACC: it is there, but what runs it is not.
  int error = 0;
  base::UniqueFd out;  // a terminal's, where there are any, so that programs write whole lines at once, as under mpirun
  base::UniqueFd err;
};

struct ChildOptions {
  std::vector<std::string> words;  // the program and its arguments
  bool merged = false;             // standard error goes where standard output goes, a pipe, and `err` stays empty
  bool no_input = false;           // standard input is at its end
  int death_signal = 0;            // what the child gets when we die
  std::optional<rlimit> files{};   // how many it may have open; as many as we may, where nothing is said
  int columns = 0;                 // of the terminal that standard output is; 0: a terminal without a size
  int inherited = -1;              // one more descriptor that it has, under the same number
};
// Throws std::runtime_error when the system refuses pipes or processes.
[[nodiscard]] Child start_child(const ChildOptions& options);

// Why a program could not be started, of Child::error.
[[nodiscard]] std::string start_error(int error);

// From now on we may have open as many files as the system allows us. Returns what held before, for our children:
// select() is only for few, and some programs close all that they could have open.
rlimit raise_file_limit();

// Makes orphans of our descendants our children, so that kill_descendants() finds them.
void adopt_orphans();
// Ends every process that descends from us, without regard, and collects what is left of them. The caller has SIGCHLD
// blocked. False when some are still there after `patience`, as one that waits for a device may be.
bool kill_descendants(std::chrono::milliseconds patience);

}  // namespace kolo::tools
