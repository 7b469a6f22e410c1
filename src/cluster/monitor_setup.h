#pragma once
// How the monitors of a world find each other, while it has only its Bootstrap.
#include <sys/types.h>

#include <string>
#include <vector>

#include "cluster/bootstrap.h"
#include "cluster/monitor_links.h"

namespace kolo::cluster {

// The world as every rank's monitor knows it.
struct MonitorWorld {
  Rank rank = 0;
  std::vector<int> hosts;               // by rank: a number for each host
  std::vector<std::string> host_names;  // by rank, for people
  std::vector<pid_t> pids;              // by rank
  LinksParts links;
};

// Collective. The ranks of one host listen at its loopback address, others at one by which the hosts reach each other;
// `interface` (KOLO_INTERFACE) says which where there are several. Throws BackendError on every rank when one
// of them cannot listen, naming it.
[[nodiscard]] MonitorWorld set_up_monitors(Bootstrap& bootstrap, const std::string& interface);

}  // namespace kolo::cluster
