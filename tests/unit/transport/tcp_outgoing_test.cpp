#include <gmock/gmock.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "cluster/listener.h"
#include "transport/tcp_connection.h"

namespace kolo::transport {
namespace {

constexpr std::size_t kPayload = 64 << 20;  // more than any kernel takes at once
constexpr int kPatience = 10'000;           // milliseconds

// Both ends of a connection; the outgoing one believes that it may write.
struct Connection {
  base::UniqueFd peer;
  TcpOutgoing out;
};

bool wait_for(int socket, short events, int patience = kPatience) {
  pollfd look{socket, events, 0};
  return poll(&look, 1, patience) == 1;
}

enum class Role { caller, answerer };

// Bytes that the peer gets before the first message.
std::size_t before_messages(Role role) { return role == Role::caller ? sizeof(TcpGreeting) : 0; }

std::unique_ptr<Connection> connect(Role role) {
  auto listener = cluster::listen_at("127.0.0.1");
  const auto where = cluster::socket_address("127.0.0.1", listener.port);
  auto made = std::make_unique<Connection>();
  base::UniqueFd caller;
  if (role == Role::caller) {
    made->out.call(*where, TcpGreeting{}, "");
  } else {
    caller = cluster::make_tcp_socket(AF_INET);
    static_cast<void>(::connect(caller.get(), where->get(), where->length));
  }
  EXPECT_TRUE(wait_for(listener.socket.get(), POLLIN));
  auto accepted = cluster::accept_at(listener.socket.get());
  EXPECT_TRUE(accepted);
  if (role == Role::caller) {
    made->peer = std::move(accepted);
  } else {
    made->peer = std::move(caller);
    made->out.answer_on(std::move(accepted));
  }
  EXPECT_TRUE(wait_for(made->out.socket(), POLLOUT));
  made->out.notice(true, false);
  return made;
}

// Sends until the kernel takes nothing more from one to whom nobody listens; returns what it then holds unsent.
int unsent_when_full(Connection& connection, const std::vector<std::byte>& payload) {
  auto send = std::make_shared<TcpSend>();
  send->header.length = payload.size();
  send->data = payload;
  connection.out.queue(send);
  do {
    connection.out.pump();
    EXPECT_EQ(connection.out.state(), TcpOutgoing::State::open);
    if (!wait_for(connection.out.socket(), POLLOUT, 100)) break;
    connection.out.notice(true, false);
  } while (!send->done);
  EXPECT_FALSE(send->done);
  int bytes = 0;
  EXPECT_EQ(ioctl(connection.out.socket(), SIOCOUTQNSD, &bytes), 0);
  return bytes;
}

class TcpOutgoingTest : public testing::TestWithParam<Role> {};
INSTANTIATE_TEST_SUITE_P(BothEnds, TcpOutgoingTest, testing::Values(Role::caller, Role::answerer),
                         [](const auto& role) { return role.param == Role::caller ? "Caller" : "Answerer"; });

// Else it is as much as the system's largest send buffer, megabytes.
TEST_P(TcpOutgoingTest, LittleIsWithTheKernelThatItHasNotSent) {
  const auto connection = connect(GetParam());
  const std::vector<std::byte> payload(kPayload);
  EXPECT_LE(unsent_when_full(*connection, payload), (128 << 10) + (64 << 10));  // and the packet that goes over it
}

TEST_P(TcpOutgoingTest, EverythingArrivesThough) {
  const auto connection = connect(GetParam());
  std::vector<std::byte> payload(kPayload);
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i * 2654435761U >> 24);
  const std::size_t first = before_messages(GetParam());
  static_cast<void>(unsent_when_full(*connection, payload));
  std::vector<std::byte> received(first + sizeof(TcpHeader) + kPayload);
  for (std::size_t at = 0; at < received.size();) {
    ASSERT_TRUE(wait_for(connection->peer.get(), POLLIN)) << at;
    const auto got = recv(connection->peer.get(), received.data() + at, received.size() - at, 0);
    ASSERT_GT(got, 0);
    at += static_cast<std::size_t>(got);
    if (wait_for(connection->out.socket(), POLLOUT, 0)) connection->out.notice(true, false);
    connection->out.pump();
  }
  EXPECT_TRUE(connection->out.idle());
  EXPECT_TRUE(std::equal(payload.begin(), payload.end(), received.end() - kPayload));
}

// What the peer gets until `size` bytes are there, or the end.
std::vector<std::byte> received_by(const Connection& connection, std::size_t size) {
  std::vector<std::byte> received;
  std::vector<std::byte> some(1 << 20);
  while (received.size() < size && wait_for(connection.peer.get(), POLLIN)) {
    const auto got = recv(connection.peer.get(), some.data(), some.size(), 0);
    if (got <= 0) break;
    received.insert(received.end(), some.begin(), some.begin() + got);
  }
  return received;
}

std::shared_ptr<TcpSend> message_of(std::size_t size) {
  auto message = std::make_shared<TcpSend>();
  message->own.assign(size, std::byte{5});
  message->header.length = size;
  message->data = message->own;
  return message;
}

bool ends_with_farewell(const std::vector<std::byte>& received) {
  TcpHeader last{};
  if (received.size() < sizeof last) return false;
  std::memcpy(&last, received.data() + received.size() - sizeof last, sizeof last);
  return last.kind == TcpHeader::kFarewell && last.length == 0;
}

// Who finds no farewell before the end takes the rank for lost. The peer does not read before the leaver has gone.
TEST_P(TcpOutgoingTest, WhatIsQueuedAndTheFarewellReachAPeerThatReadsLater) {
  auto connection = connect(GetParam());
  const auto message = message_of(1 << 20);
  connection->out.queue(message);
  connection->out.pump();
  const std::size_t first = before_messages(GetParam());
  const std::size_t expected = first + 2 * sizeof(TcpHeader) + message->own.size();
  connection->out.say_farewell();
  ASSERT_FALSE(connection->out.has_rest()) << "the kernel takes it";
  connection->out = TcpOutgoing();
  const auto received = received_by(*connection, expected + 1);
  EXPECT_EQ(received.size(), expected);
  EXPECT_TRUE(ends_with_farewell(received));
}

TEST_P(TcpOutgoingTest, WhatTheKernelHasNoRoomForIsSaidInPieces) {
  const auto connection = connect(GetParam());
  TcpOutgoing& out = connection->out;
  const auto message = message_of(kPayload);
  out.queue(message);
  out.say_farewell();
  EXPECT_TRUE(out.has_rest());
  const std::size_t first = before_messages(GetParam());
  const std::size_t expected = first + 2 * sizeof(TcpHeader) + kPayload;
  std::vector<std::byte> received;
  while (received.size() < expected) {
    const auto more = received_by(*connection, 1);
    ASSERT_FALSE(more.empty());
    received.insert(received.end(), more.begin(), more.end());
    if (out.has_rest()) out.say_rest();
  }
  EXPECT_FALSE(out.has_rest());
  EXPECT_TRUE(ends_with_farewell(received));
}

}  // namespace
}  // namespace kolo::transport
