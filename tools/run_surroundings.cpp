#include "run_surroundings.h"

#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "base/environment.h"
#include "run_child.h"
#include "run_cores.h"
#include "run_socket.h"

namespace kolo::tools {
namespace {

std::string value(const std::map<std::string, std::string>& variables, const std::string& name) {
  const auto found = variables.find(name);
  return found == variables.end() ? std::string() : found->second;
}

std::vector<std::string> host_names(const RunOptions& options) {
  std::vector<std::string> names;
  if (!options.hosts.empty()) {
    for (const Host& host : parse_hosts(options.hosts)) names.push_back(host.name);
  }
  if (options.hostfile.empty()) return names;
  std::ifstream file(options.hostfile);
  if (!file) throw std::runtime_error("cannot read host file " + options.hostfile + ": " + std::strerror(errno));
  for (std::string line; std::getline(file, line);) {
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos || line[begin] == '#') continue;
    names.push_back(line.substr(begin, line.find_first_of(" \t#:", begin) - begin));
  }
  return names;
}

// 0: standard output is no terminal, or one without a size.
int columns_of_standard_output() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

Surroundings look_around() {
  Surroundings around;
  const UsableCores usable = usable_cores();
  around.cores = usable.within_quota;
  around.all_cpus = usable.all;
  around.root = ::geteuid() == 0;
  around.program = std::filesystem::read_symlink("/proc/self/exe").string();
  around.environment = base::get_environment_with_prefix("");
  around.columns = columns_of_standard_output();
  // Set by script/cluster for what it runs.
  around.hub_network = value(around.environment, "EMULATED_HOSTS_NETWORK");
  around.emulated = !around.hub_network.empty();
  around.emulated_agent = value(around.environment, "EMULATED_HOSTS_AGENT");
  std::string names = value(around.environment, "EMULATED_HOSTS_NAMES");
  if (!names.empty()) {
    for (const Host& host : parse_hosts(names)) around.emulated_hosts.push_back(host.name);
  }
  return around;
}

std::string first_remote_host(const RunOptions& options) {
  for (const std::string& name : host_names(options)) {
    if (!own_address({}, name).starts_with("127.")) return name;
  }
  return {};
}

void check_mpirun(const std::string& mpirun) {
  const Child child = start_child({{mpirun, "--version"}, true, true, SIGKILL});
  if (child.error == ENOENT) {
    throw std::runtime_error("cannot find " + mpirun + "; install Open MPI (Debian: apt-get install openmpi-bin)");
  }
  if (child.error != 0) throw std::runtime_error(mpirun + ": " + start_error(child.error));
  std::string text;
  std::array<char, 4096> bytes;
  for (ssize_t got = 0; (got = ::read(child.out.get(), bytes.data(), bytes.size())) > 0;) {
    text.append(bytes.data(), static_cast<std::size_t>(got));
  }
  ::waitpid(child.pid, nullptr, 0);
  if (text.find("Open MPI") == std::string::npos) {
    throw std::runtime_error(mpirun +
                             " is not the mpirun of Open MPI, which kolo needs; set --mpirun. Its version is: " +
                             text.substr(0, text.find('\n')));
  }
}

std::string random_name() {
  std::array<unsigned char, 16> bytes;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw std::runtime_error(std::string("getrandom: ") + std::strerror(errno));
  }
  std::string name;
  for (const unsigned char byte : bytes) {
    name += "0123456789abcdef"[byte >> 4];
    name += "0123456789abcdef"[byte & 15];
  }
  return name;
}

}  // namespace kolo::tools
