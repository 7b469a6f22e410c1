#pragma once
// By which address the ranks of other hosts reach this one.
#include <optional>
#include <string>
#include <vector>

#include "kolo/types.h"

namespace kolo::cluster {

// An address of one of this host's interfaces.
struct InterfaceAddress {
  std::string interface;
  std::string address;  // "10.0.0.1", "fd00::1"
  int prefix = 0;       // bits of its network
  bool operator==(const InterfaceAddress&) const = default;
};

// Of interfaces that are up, without loopback and link-local ones; IPv4 first.
[[nodiscard]] std::vector<InterfaceAddress> interface_addresses();
// Whether `setting` means it: the interface's name, or a network ("10.0.0.0/24") that holds the address. An empty one
// means all.
[[nodiscard]] bool meant_by(const std::string& setting, const InterfaceAddress& address);
// The first of `mine` in a network in which every other host has an address too, and a different one (the bridge of a
// container engine has the same on every host). Nothing if there is none.
[[nodiscard]] std::optional<std::string> common_address(const std::vector<InterfaceAddress>& mine,
                                                        const std::vector<std::vector<InterfaceAddress>>& others);
// The one that this host's routes choose on the way to `peer`.
[[nodiscard]] std::optional<std::string> address_towards(const std::string& peer);

// As text, for Bootstrap::allgather(): no blanks.
[[nodiscard]] std::string print(const std::vector<InterfaceAddress>& addresses);
[[nodiscard]] std::vector<InterfaceAddress> parse_addresses(const std::string& text);

}  // namespace kolo::cluster
