#include "cluster/monitor_setup.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "base/hash.h"
#include "cluster/host_name.h"
#include "cluster/monitor_address.h"
#include "kolo/error.h"

namespace kolo::cluster {
namespace {

constexpr std::string_view kHex = "0123456789abcdef";

std::string random_token() {
  Token token{};
  if (getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) return {};
  std::string text;
  for (const std::byte byte : token) {
    text += kHex[std::to_integer<std::size_t>(byte) >> 4];
    text += kHex[std::to_integer<std::size_t>(byte) & 15];
  }
  return text;
}

Token parse_token(const std::string& text) {
  Token token{};
  if (text.size() != 2 * token.size()) throw BackendError("monitor: rank 0 has no random numbers");
  for (std::size_t i = 0; i < token.size(); ++i) {
    token[i] = static_cast<std::byte>(kHex.find(text[2 * i]) * 16 + kHex.find(text[2 * i + 1]));
  }
  return token;
}

// What a rank says of itself before anybody listens: "TOKEN PID ADDRESSES HOST-KEY-HASH HOST-NAME".
struct Card {
  std::string token;
  pid_t pid = 0;
  std::vector<InterfaceAddress> addresses;
  std::string host;
  std::string host_name;
};

std::string make_card(const std::string& interface) {
  auto addresses = interface_addresses();
  std::erase_if(addresses, [&](const auto& address) { return !meant_by(interface, address); });
  return random_token() + ' ' + std::to_string(getpid()) + ' ' + print(addresses) + ' ' +
         std::to_string(base::hash64(host_key())) + ' ' + host_name();
}

Card parse_card(const std::string& text) {
  Card card;
  std::string addresses;
  std::istringstream(text) >> card.token >> card.pid >> addresses >> card.host >> card.host_name;
  card.addresses = parse_addresses(addresses);
  return card;
}

// One number a host, in the order of their lowest ranks.
std::vector<int> number_hosts(const std::vector<Card>& cards) {
  std::vector<std::string> keys;
  std::vector<int> hosts;
  for (const Card& card : cards) {
    const auto found = std::ranges::find(keys, card.host);
    hosts.push_back(static_cast<int>(found - keys.begin()));
    if (found == keys.end()) keys.push_back(card.host);
  }
  return hosts;
}

// Where this rank listens; empty when it has no address by which others reach it.
std::string own_address(Rank rank, const std::vector<Card>& cards, const std::vector<int>& hosts) {
  if (std::ranges::all_of(hosts, [](int host) { return host == 0; })) return "127.0.0.1";
  const auto& mine = cards[static_cast<std::size_t>(rank)].addresses;
  const int host = hosts[static_cast<std::size_t>(rank)];
  std::vector<std::vector<InterfaceAddress>> others;
  for (std::size_t r = 0; r < cards.size(); ++r) {
    if (hosts[r] != host) others.push_back(cards[r].addresses);
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

// "ADDRESS PORT", or "! WHAT WENT WRONG".
std::string open_listener(const std::string& address, base::UniqueFd& socket) {
  if (address.empty()) return "! no interface that is up has an address that KOLO_MONITOR_INTERFACE allows";
  try {
    Listener listener = listen_at(address);
    socket = std::move(listener.socket);
    return address + ' ' + std::to_string(listener.port);
  } catch (const Error& error) {
    return std::string("! ") + error.what();
  }
}

SocketAddress parse_listener(Rank rank, const std::string& text) {
  std::string address;
  unsigned port = 0;
  std::istringstream(text) >> address >> port;
  const auto parsed = socket_address(address, static_cast<std::uint16_t>(port));
  if (!parsed) throw BackendError("rank " + std::to_string(rank) + " has no monitor: " + text);
  return *parsed;
}

}  // namespace

MonitorWorld set_up_monitors(Bootstrap& bootstrap, const std::string& interface) {
  MonitorWorld world;
  world.rank = bootstrap.placement().rank;
  std::vector<Card> cards;
  for (const auto& text : bootstrap.allgather(make_card(interface))) cards.push_back(parse_card(text));
  world.hosts = number_hosts(cards);
  for (const Card& card : cards) {
    world.pids.push_back(card.pid);
    world.host_names.push_back(card.host_name);
  }
  world.links.rank = world.rank;
  const auto address = own_address(world.rank, cards, world.hosts);
  const auto listeners = bootstrap.allgather(open_listener(address, world.links.listener));
  for (const auto& text : listeners) {
    world.links.addresses.push_back(parse_listener(static_cast<Rank>(world.links.addresses.size()), text));
  }
  world.links.token = parse_token(cards.front().token);
  return world;
}

}  // namespace kolo::cluster
