#include "cluster/host_address.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "kolo/error.h"

namespace kolo::cluster {
namespace {

constexpr std::string_view kFailed = "! ";

}  // namespace

std::vector<InterfaceAddress> allowed_addresses(const std::string& setting) {
  auto addresses = interface_addresses();
  std::erase_if(addresses, [&](const auto& address) { return !meant_by(setting, address); });
  return addresses;
}

std::string own_address(Rank rank, const HostAddresses& world) {
  if (std::ranges::all_of(world.hosts, [](int host) { return host == 0; })) return "127.0.0.1";
  const auto& mine = world.addresses[static_cast<std::size_t>(rank)];
  const int host = world.hosts[static_cast<std::size_t>(rank)];
  std::vector<std::vector<InterfaceAddress>> others;
  for (std::size_t r = 0; r < world.hosts.size(); ++r) {
    if (world.hosts[r] != host) others.push_back(world.addresses[r]);
  }
  if (const auto common = common_address(mine, others)) return *common;
  for (const auto& other : others) {
    if (other.empty()) continue;
    const auto towards = address_towards(other.front().address);
    const bool own = towards && std::ranges::any_of(mine, [&](const auto& one) { return one.address == *towards; });
    if (own) return *towards;
  }
  return mine.empty() ? "" : mine.front().address;
}

std::string open_listener(const std::string& address, base::UniqueFd& listener) {
  if (address.empty())
    return std::string(kFailed) + "no interface that is up has an address that KOLO_INTERFACE allows";
  try {
    Listener opened = listen_at(address);
    listener = std::move(opened.socket);
    return address + ' ' + std::to_string(opened.port);
  } catch (const Error& error) {
    return std::string(kFailed) + error.what();
  }
}

SocketAddress parse_listener(Rank rank, const std::string& text) {
  const std::string who = "rank " + std::to_string(rank) + " cannot be reached: ";
  if (text.starts_with(kFailed)) throw BackendError(who + text.substr(kFailed.size()));
  std::string address;
  unsigned port = 0;
  std::istringstream(text) >> address >> port;
  const auto parsed = socket_address(address, static_cast<std::uint16_t>(port));
  if (!parsed) throw BackendError(who + "malformed address '" + text + "'");
  return *parsed;
}

}  // namespace kolo::cluster
