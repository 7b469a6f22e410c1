#include "cluster/monitor_setup.h"

#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "base/hash.h"
#include "base/host_name.h"
#include "cluster/host_address.h"

namespace kolo::cluster {
namespace {

// What a rank says of itself before anybody listens: "TOKEN PID ADDRESSES HOST-KEY-HASH HOST-NAME".
struct Card {
  std::string token;
  pid_t pid = 0;
  std::vector<InterfaceAddress> addresses;
  std::string host;
  std::string host_name;
};

std::string make_card(const std::string& interface) {
  return random_token() + ' ' + std::to_string(getpid()) + ' ' + print(allowed_addresses(interface)) + ' ' +
         std::to_string(base::hash64(base::host_key())) + ' ' + base::host_name();
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
  HostAddresses known{world.hosts, {}};
  for (Card& card : cards) known.addresses.push_back(std::move(card.addresses));
  const auto address = own_address(world.rank, known);
  const auto listeners = bootstrap.allgather(open_listener(address, world.links.listener));
  for (const auto& text : listeners) {
    world.links.addresses.push_back(parse_listener(static_cast<Rank>(world.links.addresses.size()), text));
  }
  world.links.token = parse_token(cards.front().token);
  return world;
}

}  // namespace kolo::cluster
