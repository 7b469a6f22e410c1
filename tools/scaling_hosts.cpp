#include "scaling_hosts.h"

#include <unistd.h>

#include "kolo/error.h"
#include "scaling_programs.h"

namespace kolo::tools {

EmulatedHosts::EmulatedHosts(const std::vector<int>& counts) {
  if (counts.empty()) return;
  script_ = find_beside_program({"../libexec/kolo/cluster", "../../../script/cluster"});
  if (script_.empty()) {
    throw UsageError(
        "--hosts needs kolo's script `cluster`, which is neither in libexec/kolo of the installation nor in script of "
        "the sources");
  }
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
  std::vector<std::string> command{"env", "EMULATED_HOSTS=" + name_of(hosts), script_};
  command.insert(command.end(), words.begin(), words.end());
  const Finished finished = run_to_end(command);
  if (finished.succeeded) return;
  throw UsageError("emulated hosts: `cluster " + words.front() + "` failed: " + finished.output);
}

}  // namespace kolo::tools
