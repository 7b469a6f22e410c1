#include "run_reap.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "base/environment.h"
#include "base/unique_fd.h"

namespace kolo::tools {
namespace {

namespace fs = std::filesystem;

bool belongs_to(pid_t pid, const std::string& job) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
  const std::string wanted = std::string(kJobVariable) + "=" + job;
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (entry == wanted) return true;
  }
  return false;
}

// A descriptor stays with its process: between looking and signalling the number cannot become another's.
void signal_if_of(pid_t pid, const std::string& job, int signal) {
  const base::UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!belongs_to(pid, job)) return;
  if (process) {
    ::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0);
  } else if (errno == ENOSYS) {
    ::kill(pid, signal);
  }
}

std::string environment(const char* name) { return base::get_environment(name).value_or(""); }

// Shared memory of Open MPI's between ranks: vader_segment.HOST.USER.JOB(hex).LOCAL_RANK
void remove_segment() {
  const std::string text = environment("OMPI_MCA_ess_base_jobid");
  const std::string local = environment("OMPI_COMM_WORLD_LOCAL_RANK");
  unsigned long job = 0;
  std::from_chars(text.data(), text.data() + text.size(), job);
  if (job == 0 || local.empty()) return;
  std::ostringstream end;
  end << '.' << ::geteuid() << '.' << std::hex << job << '.' << local;
  std::error_code ignored;
  for (const fs::directory_entry& file : fs::directory_iterator("/dev/shm", ignored)) {
    const std::string name = file.path().filename().string();
    if (name.starts_with("vader_segment.") && name.ends_with(end.str())) fs::remove(file.path(), ignored);
  }
}

}  // namespace

std::vector<pid_t> processes_of(const std::string& job) {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc{} && end == name.data() + name.size() && pid != ::getpid() && belongs_to(pid, job)) {
      found.push_back(pid);
    }
  }
  return found;
}

bool end_processes_of(const std::string& job, int signal, std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const std::vector<pid_t> found = processes_of(job);
    if (found.empty()) return true;
    if (std::chrono::steady_clock::now() >= end) return false;
    for (const pid_t pid : found) signal_if_of(pid, job, signal);
    // Somebody else's children: nothing tells of their end. The list above may also have grown meanwhile.
    ::poll(nullptr, 0, 20);
  }
}

Scratch::Scratch() {
  const std::string base = environment("TMPDIR");
  std::string name = (base.empty() ? "/tmp" : base) + "/kolo-run.XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::runtime_error("cannot create a folder for temporary files: " + name + ": " + std::strerror(errno));
  }
  path_ = name;
}

Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void remove_session_of(pid_t mpirun) {
  std::error_code ignored;
  const std::string base = environment("TMPDIR");
  const std::string user = "." + std::to_string(::geteuid());
  for (const fs::directory_entry& folder : fs::directory_iterator(base.empty() ? "/tmp" : base, ignored)) {
    const std::string name = folder.path().filename().string();
    if (!name.starts_with("ompi.") || !name.ends_with(user)) continue;
    fs::remove_all(folder.path() / ("pid." + std::to_string(mpirun)), ignored);
  }
}

void remove_leftovers_of_rank(bool session) {
  remove_segment();
  const std::string folder = environment("OMPI_MCA_orte_jobfam_session_dir");
  if (!session || folder.find("/ompi.") == std::string::npos) return;
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  fs::remove(fs::path(folder).parent_path(), ignored);  // where it was the last one in it
}

}  // namespace kolo::tools
