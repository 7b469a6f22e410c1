#include "transport/tcp_setup.h"

#include <sstream>

#include "cluster/host_address.h"
#include "transport/congestion_control.h"

namespace kolo::transport {

TcpWorld set_up_tcp(cluster::Bootstrap& bootstrap, const TcpSettings& settings) {
  const Placement& placement = bootstrap.placement();
  TcpWorld world;
  world.rank = placement.rank;
  cluster::HostAddresses known;
  std::string secret;
  // "HOST TOKEN ADDRESSES"; the token is rank 0's.
  const std::string token_text = world.rank == 0 ? cluster::random_token() : "";
  for (const auto& text :
       bootstrap.allgather(std::to_string(placement.cross_rank) + ' ' + (token_text.empty() ? "-" : token_text) + ' ' +
                           print(cluster::allowed_addresses(settings.interface)))) {
    int host = 0;
    std::string token;
    std::string addresses;
    std::istringstream(text) >> host >> token >> addresses;
    if (known.hosts.empty()) secret = token;
    known.hosts.push_back(host);
    known.addresses.push_back(cluster::parse_addresses(addresses));
  }
  const auto address = cluster::own_address(world.rank, known);
  for (const auto& text : bootstrap.allgather(cluster::open_listener(address, world.listener))) {
    world.addresses.push_back(cluster::parse_listener(static_cast<Rank>(world.addresses.size()), text));
  }
  world.token = cluster::parse_token(secret);
  world.congestion_control = choose_congestion_control(settings.congestion_control);
  set_congestion_control(world.listener.get(), world.congestion_control);
  return world;
}

}  // namespace kolo::transport
