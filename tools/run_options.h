#pragma once
// What `kolo run` was asked for.
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace kolo::tools {

struct RunOptions {
  int ranks = 0;  // 0: the sum of the slots of `hosts`
  std::string hosts;
  std::string hostfile;
  std::string interface;  // 10.0.0.0/24 or eth0; empty: whatever the launcher picks
  std::string bind = "auto";
  std::vector<std::string> environment;                  // NAME or NAME=VALUE
  std::vector<std::pair<std::string, std::string>> mca;  // further parameters of Open MPI
  std::string agent;                                     // instead of ssh
  std::string mpirun = "mpirun";
  std::string timeout_text;
  std::chrono::milliseconds timeout{0};  // 0: none
  std::string grace_text = "5s";
  std::chrono::milliseconds grace{5000};
  bool recovery = false;
  bool allow_lost = false;
  bool no_prefix = false;
  bool quiet = false;
  bool dry_run = false;
  std::vector<std::string> command;
};

// "90" (seconds), "500ms", "90s", "10m", "2h". Throws std::invalid_argument.
[[nodiscard]] std::chrono::milliseconds parse_duration(const std::string& text);

}  // namespace kolo::tools
