#pragma once
// What a job may leave behind on this machine, and its end: processes, a folder of mpirun's, files in /dev/shm.
#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace kolo::tools {

// All processes of a job have this variable, with the job's name, from `kolo run` by way of mpirun.
inline constexpr const char* kJobVariable = "KOLO_RUN_JOB";

// Those of this machine (as far as we may look into them), found by their environment: no pid is trusted for being what
// it was before.
[[nodiscard]] std::vector<pid_t> processes_of(const std::string& job);
// Signals all of them, again and again until none is left. False when some are, after `patience`.
bool end_processes_of(const std::string& job, int signal, std::chrono::milliseconds patience);

// A folder that is gone when this object is.
class Scratch {
 public:
  Scratch();  // throws std::runtime_error
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The folder of an mpirun that was killed, where Open MPI puts it when it is not told where.
void remove_session_of(pid_t mpirun);

// What Open MPI does not take away when a rank was killed; for its supervisor, which has the rank's environment.
// `session`: also the folder of its daemon, which is dead.
void remove_leftovers_of_rank(bool session);

}  // namespace kolo::tools
