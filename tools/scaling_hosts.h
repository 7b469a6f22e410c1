#pragma once
// Creates emulated hosts with script/cluster (needs root), one set for each number of hosts. The destructor removes
// them.
#include <map>
#include <string>
#include <vector>

namespace kolo::tools {

class EmulatedHosts {
 public:
  // Throws UsageError if kolo's script for hosts is not there. Creates no host.
  explicit EmulatedHosts(const std::vector<int>& counts);
  ~EmulatedHosts();
  EmulatedHosts(const EmulatedHosts&) = delete;
  EmulatedHosts& operator=(const EmulatedHosts&) = delete;

  // Throws UsageError if this machine cannot create hosts.
  void check() const { call(1, {"possible"}); }
  // Sets the bandwidth of the links ("1gbit"; empty: not shaped), and creates the set before. Throws UsageError.
  void set_rate(int hosts, const std::string& rate);
  // The command prefix that runs a command on the hub of that set.
  [[nodiscard]] std::vector<std::string> launcher(int hosts) const;

 private:
  [[nodiscard]] std::string name_of(int hosts) const;
  void call(int hosts, const std::vector<std::string>& words) const;

  std::string script_;
  std::map<int, std::string> rates_;  // of the sets that are up
};

}  // namespace kolo::tools
