#include "scaling_hosts.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "kolo/error.h"
#include "run_child.h"

namespace kolo::tools {
namespace {

namespace fs = std::filesystem;

// Beside an installed program, or in the sources around a build.
std::string find_script() {
  const fs::path bin = fs::read_symlink("/proc/self/exe").parent_path();
  for (const char* place : {"../libexec/kolo/cluster", "../../../script/cluster"}) {
    const fs::path path = bin / place;
    if (fs::exists(path)) return fs::canonical(path).string();
  }
  throw UsageError("--hosts needs kolo's script `cluster`, which is neither in " + (bin / "../libexec/kolo").string() +
                   " nor in script/ of the sources");
}

}  // namespace

EmulatedHosts::EmulatedHosts(const std::vector<int>& counts) {
  if (!counts.empty()) script_ = find_script();
}

EmulatedHosts::~EmulatedHosts() {
  for (const auto& [hosts, rate] : rates_) {
    try {
      call(hosts, {"down"});
    } catch (const std::exception&) {  // the script has said why
    }
  }
}

void EmulatedHosts::set_rate(int hosts, const std::string& rate) {
  const std::string wanted = rate.empty() ? "none" : rate;
  const auto [set, is_new] = rates_.try_emplace(hosts, "none");
  if (is_new) call(hosts, {"up", "--hosts", std::to_string(hosts)});
  if (set->second == wanted) return;
  call(hosts, {"rate", wanted});
  set->second = wanted;
}

std::vector<std::string> EmulatedHosts::launcher(int hosts) const {
  return {"env", "EMULATED_HOSTS=" + name_of(hosts), script_, "on", "hub"};
}

std::string EmulatedHosts::name_of(int hosts) const {
  return "scaling" + std::to_string(::getpid()) + "x" + std::to_string(hosts);
}

void EmulatedHosts::call(int hosts, const std::vector<std::string>& words) const {
  ChildOptions options;
  options.words = {"env", "EMULATED_HOSTS=" + name_of(hosts), script_};
  options.words.insert(options.words.end(), words.begin(), words.end());
  options.merged = options.no_input = true;
  const Child child = start_child(options);
  if (child.pid == 0) throw UsageError("cannot start " + script_ + ": " + start_error(child.error));
  std::string said;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(child.out.get(), buffer, sizeof buffer)) > 0;) {
    said.append(buffer, static_cast<std::size_t>(got));
  }
  int status = 0;
  ::waitpid(child.pid, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  throw UsageError("emulated hosts: `cluster " + words.front() + "` failed: " + said);
}

}  // namespace kolo::tools
