#pragma once
// Ranks of one process that exchange messages over TCP, for tests of what is particular to it.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>

#include "cluster/listener.h"
#include "contract/transport_tools.h"
#include "kolo/error.h"
#include "telemetry/counters.h"
#include "transport/make.h"
#include "transport/tcp_connection.h"
#include "transport/tcp_setup.h"

namespace kolo::transport {

using namespace std::chrono_literals;
using test::Bytes;
using test::finish;
using test::pattern;

inline constexpr int kRanks = 3;

// Ranks of one process, as set_up_tcp() would have introduced them.
class TcpTest : public testing::Test {
 protected:
  TcpTest() {
    std::vector<TcpWorld> worlds(kRanks);
    for (Rank rank = 0; rank < kRanks; ++rank) {
      auto listener = cluster::listen_at("127.0.0.1");
      addresses_.push_back(*cluster::socket_address("127.0.0.1", listener.port));
      worlds[static_cast<std::size_t>(rank)] = {rank, token_, std::move(listener.socket), {}};
    }
    for (auto& world : worlds) {
      world.addresses = addresses_;
      ends_.push_back(make_tcp(std::move(world), counters_));
    }
  }

  // Somebody who has connected to `rank` and says this.
  base::UniqueFd stranger(Rank rank, std::span<const std::byte> says) {
    const auto& address = addresses_[static_cast<std::size_t>(rank)];
    base::UniqueFd socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(socket.get(), address.get(), address.length), 0);
    EXPECT_EQ(::send(socket.get(), says.data(), says.size(), 0), static_cast<ssize_t>(says.size()));
    return socket;
  }
  base::UniqueFd stranger(Rank rank, const TcpGreeting& greeting) {
    return stranger(rank, std::as_bytes(std::span(&greeting, 1)));
  }
  // A message of one byte arrives.
  void expect_open(Rank from, Rank to) {
    const Bytes out{std::byte{7}};
    Bytes in(1);
    const auto receive = end(to).receive(from, 5, in);
    const auto send = end(from).send(to, 5, out);
    finish(end(from), *send);
    finish(end(to), *receive);
    EXPECT_EQ(in, out);
  }
  // What rank 0, whose monitor is `liveness`, wants of rank 1, which has spoken before and leaves now.
  std::unique_ptr<Transfer> awaited_from_a_leaver(const cluster::Liveness& liveness, Bytes& into) {
    end(0).set_liveness(&liveness);
    expect_open(1, 0);
    auto receive = end(0).receive(1, 9, into);
    ends_[1].reset();
    return receive;
  }
  Transport& end(Rank rank) { return *ends_[static_cast<std::size_t>(rank)]; }
  // The receive fails with a PeerLostError that names `rank`; what it says.
  static std::string loss(Transport& at, Transfer& transfer, Rank rank) {
    try {
      finish(at, transfer);
    } catch (const PeerLostError& error) {
      EXPECT_EQ(error.rank(), rank);
      return error.what();
    }
    return "nothing";
  }

  cluster::Token token_{std::byte{1}, std::byte{2}};
  telemetry::Counters counters_;
  std::vector<cluster::SocketAddress> addresses_;
  std::vector<std::unique_ptr<Transport>> ends_;
};

}  // namespace kolo::transport
