#pragma once
// The mpirun line that `kolo run` stands for. Pure: everything it depends on is handed in.
#include <map>
#include <string>
#include <vector>

#include "run_options.h"

namespace kolo::tools {

// What the line depends on beside the options.
struct Surroundings {
  int cores = 1;               // physical ones this process may use, as far as its CPU quota allows
  bool all_cpus = true;        // its affinity mask has every CPU of the machine
  bool root = false;           // Open MPI refuses to start as root unless told otherwise
  bool emulated = false;       // the hosts are one machine (script/cluster)
  std::string hub_network;     // of emulated hosts
  std::string emulated_agent;  // reaches them
  std::vector<std::string> emulated_hosts;
  std::string program;                             // this program, which is also each rank's supervisor
  std::string scratch;                             // where mpirun puts its session folder
  std::map<std::string, std::string> environment;  // this process's
  int columns = 0;                                 // of the terminal that standard output is; 0: it is none
};

struct Host {
  std::string name;
  int slots = 1;
};

// "h0:2,h1" -> {h0, 2}, {h1, 1}. Throws std::invalid_argument.
[[nodiscard]] std::vector<Host> parse_hosts(const std::string& text);
// Ranks as evenly over the names as their number allows, in order; names that get none are left out.
[[nodiscard]] std::vector<Host> spread(int ranks, const std::vector<std::string>& names);

// The options with what the surroundings imply filled in: on emulated hosts agent, interface and hosts; the number of
// ranks. Throws std::invalid_argument where they contradict each other.
[[nodiscard]] RunOptions completed(RunOptions options, const Surroundings& surroundings);

// How ranks are tied to processors.
struct Binding {
  int cores_per_rank = 0;  // 0: not bound
  bool by_shim = false;    // the rank's supervisor binds it within our affinity mask, which mpirun does not respect
  std::string why;
};
// Tells the supervisor how many cores its rank has.
inline constexpr const char* kCoresVariable = "KOLO_RUN_CORES_PER_RANK";
[[nodiscard]] Binding choose_binding(const RunOptions& options, const Surroundings& surroundings);

// The variables that a launcher gave to this process because it is a rank of a job; mpirun starts no job where they are
// set. Empty if the process is no rank. A batch script or an interactive step of Slurm is none.
[[nodiscard]] std::vector<std::string> rank_variables(const Surroundings& surroundings);

// Tells a rank how wide a line of its output may be on the terminal of `kolo run`. 0: the output is no terminal.
inline constexpr const char* kColumnsVariable = "KOLO_RUN_COLUMNS";
[[nodiscard]] int columns_of_a_rank(const RunOptions& options, const Surroundings& surroundings);

// Names of the variables that every rank gets, besides those of `kolo run` itself.
[[nodiscard]] std::vector<std::string> forwarded_names(const RunOptions& options, const Surroundings& surroundings);

// mpirun takes a word ":" as the end of a program's words. `:`, `\:`, `\\:` and so on get one more backslash on its
// line, which the rank's supervisor takes away.
[[nodiscard]] std::string escape_colon(const std::string& word);
[[nodiscard]] std::string unescape_colon(const std::string& word);

// argv of mpirun. `options` are completed. Throws std::invalid_argument if a word other than the program's is ":".
[[nodiscard]] std::vector<std::string> mpirun_line(const RunOptions& options, const Surroundings& surroundings);

// As a shell would have to be given it.
[[nodiscard]] std::string shell_words(const std::vector<std::string>& words);

}  // namespace kolo::tools
