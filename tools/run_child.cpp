#include "run_child.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "base/environment.h"

namespace kolo::tools {
namespace {

struct Stream {
  base::UniqueFd ours;
  base::UniqueFd theirs;
};

Stream make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error(std::string("pipe: ") + std::strerror(errno));
  return {base::UniqueFd(ends[0]), base::UniqueFd(ends[1])};
}

// A terminal that passes bytes on as they are; a pipe where the system has no terminals to give.
Stream make_terminal(int columns) {
  Stream stream;
  stream.ours.reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  char name[128];
  if (!stream.ours || ::grantpt(stream.ours.get()) != 0 || ::unlockpt(stream.ours.get()) != 0 ||
      ::ptsname_r(stream.ours.get(), name, sizeof name) != 0) {
    return make_pipe();
  }
  stream.theirs.reset(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  termios settings{};
  if (!stream.theirs || ::tcgetattr(stream.theirs.get(), &settings) != 0) return make_pipe();
  ::cfmakeraw(&settings);
  if (::tcsetattr(stream.theirs.get(), TCSANOW, &settings) != 0) return make_pipe();
  winsize size{};
  size.ws_col = static_cast<unsigned short>(columns);
  ::ioctl(stream.theirs.get(), TIOCSWINSZ, &size);
  return stream;
}

struct Ends {
  int out = -1;
  int err = -1;
  int failure = -1;
};

// In the child, between fork and exec: only what may be called there.
[[noreturn]] void become(char* const* words, const ChildOptions& options, Ends ends, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, options.death_signal);
  if (::getppid() != parent) ::_exit(1);  // it died before we could ask to be told
  if (options.no_input) ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  ::dup2(ends.out, STDOUT_FILENO);
  ::dup2(ends.err, STDERR_FILENO);
  if (options.inherited >= 0) ::fcntl(options.inherited, F_SETFD, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  if (options.files) ::setrlimit(RLIMIT_NOFILE, &*options.files);
  ::execvp(words[0], words);
  const int error = errno;
  static_cast<void>(!::write(ends.failure, &error, sizeof error));
  ::_exit(127);
}

// Where execvp() would look for it.
bool is_there(const std::string& program) {
  if (program.find('/') != std::string::npos) return ::access(program.c_str(), F_OK) == 0;
  std::istringstream folders(base::get_environment("PATH").value_or(""));
  for (std::string folder; !program.empty() && std::getline(folders, folder, ':');) {
    const std::string path = (folder.empty() ? "." : folder) + "/" + program;
    if (::access(path.c_str(), X_OK) == 0) return true;
  }
  return false;
}

std::vector<pid_t> children() {
  std::ifstream list("/proc/self/task/" + std::to_string(::getpid()) + "/children");
  std::vector<pid_t> found;
  for (pid_t pid = 0; list >> pid;) found.push_back(pid);
  return found;
}

}  // namespace

Child start_child(const ChildOptions& options) {
  std::vector<char*> pointers;
  for (const std::string& word : options.words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  Stream out = options.merged ? make_pipe() : make_terminal(options.columns);
  Stream err = options.merged ? Stream{} : make_pipe();
  Stream failure = make_pipe();
  const Ends ends{out.theirs.get(), options.merged ? out.theirs.get() : err.theirs.get(), failure.theirs.get()};
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
  if (pid == 0) become(pointers.data(), options, ends, parent);

  out.theirs.reset();
  err.theirs.reset();
  failure.theirs.reset();
  Child child;
  child.out = std::move(out.ours);
  child.err = std::move(err.ours);
  // Closed without a word by a successful exec.
  ssize_t got = 0;
  do {
    got = ::read(failure.ours.get(), &child.error, sizeof child.error);
  } while (got < 0 && errno == EINTR);
  if (got == static_cast<ssize_t>(sizeof child.error)) {
    ::waitpid(pid, nullptr, 0);
    // The kernel says the same of a program that is not there, and of one whose interpreter is not.
    if (child.error == ENOENT && is_there(options.words.front())) child.error = ELIBACC;
    return child;
  }
  child.error = 0;
  child.pid = pid;
  return child;
}

std::string start_error(int error) {
  if (error != ELIBACC) return std::strerror(error);
  return "the file exists, but the interpreter that its first line names, or its loader, may be missing";
}

rlimit raise_file_limit() {
  rlimit before{};
  if (::getrlimit(RLIMIT_NOFILE, &before) != 0)
    throw std::runtime_error(std::string("getrlimit: ") + std::strerror(errno));
  const rlimit most{before.rlim_max, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &most);
  return before;
}

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

bool kill_descendants(std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  // Whoever is killed leaves its own children to us, until there are none.
  for (;;) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    const std::vector<pid_t> found = children();
    if (found.empty()) return true;
    if (std::chrono::steady_clock::now() >= end) return false;
    for (const pid_t pid : found) ::kill(pid, SIGKILL);
    const timespec moment{0, 50'000'000};
    ::sigtimedwait(&child, nullptr, &moment);  // SIGCHLD is blocked: it waits to be taken
  }
}

}  // namespace kolo::tools
