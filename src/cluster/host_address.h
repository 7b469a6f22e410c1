#pragma once
// Where a rank listens, so that the ranks of other hosts reach it.
#include <string>
#include <vector>

#include "cluster/listener.h"
#include "cluster/monitor_address.h"
#include "kolo/types.h"

namespace kolo::cluster {

// What is known of the ranks before anybody listens, by rank.
struct HostAddresses {
  std::vector<int> hosts;  // a number for each host
  std::vector<std::vector<InterfaceAddress>> addresses;
};

// This host's addresses that `setting` (KOLO_INTERFACE) allows.
[[nodiscard]] std::vector<InterfaceAddress> allowed_addresses(const std::string& setting);
// Of `rank`, this one. The ranks of one host listen at its loopback address, others at one by which the hosts reach
// each other. Empty when there is none.
[[nodiscard]] std::string own_address(Rank rank, const HostAddresses& world);

// Opens `listener` there and says where in words for Bootstrap::allgather(): "ADDRESS PORT", or what went wrong, which
// parse_listener() then throws as a BackendError on every rank, naming this one.
[[nodiscard]] std::string open_listener(const std::string& address, base::UniqueFd& listener);
[[nodiscard]] SocketAddress parse_listener(Rank rank, const std::string& text);

}  // namespace kolo::cluster
