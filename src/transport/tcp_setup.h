#pragma once
// How the ranks of a world find each other for TCP, while it has only its Bootstrap.
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "cluster/bootstrap.h"
#include "cluster/socket_address.h"
#include "cluster/token.h"
#include "telemetry/counters.h"
#include "transport/make.h"
#include "transport/transport.h"

namespace kolo::transport {

struct TcpWorld {
  Rank rank = 0;
  cluster::Token token{};
  base::UniqueFd listener;
  std::vector<cluster::SocketAddress> addresses;  // by rank
  std::string congestion_control = {};            // of all connections; empty: as the system has it
};

// Collective. Throws BackendError on every rank when one of them cannot listen, naming it.
[[nodiscard]] TcpWorld set_up_tcp(cluster::Bootstrap& bootstrap, const TcpSettings& settings);

// The end of one rank of it.
[[nodiscard]] std::unique_ptr<Transport> make_tcp(TcpWorld world, telemetry::Counters& counters);

}  // namespace kolo::transport
