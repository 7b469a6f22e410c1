// What is particular to TCP: strangers at the door, peers whose connections end, and whose word counts then.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "base/deadline.h"
#include "cluster/listener.h"
#include "contract/transport_tools.h"
#include "kolo/error.h"
#include "telemetry/counters.h"
#include "transport/make.h"
#include "transport/tcp_listener.h"
#include "transport/tcp_setup.h"

namespace kolo::transport {
namespace {

using namespace std::chrono_literals;
using test::Bytes;
using test::finish;
using test::pattern;

constexpr int kRanks = 3;

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

// Whether the other side has closed it.
bool closed(Transport& host, const base::UniqueFd& socket) {
  const base::Deadline deadline(10s);
  std::byte byte{};
  while (!deadline.passed()) {
    host.wait_for_activity(1ms);
    if (recv(socket.get(), &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET) return true;
  }
  return false;
}

TEST_F(TcpTest, StrangersAreShownTheDoorAndNothingElse) {
  TcpGreeting wrong_token{.token = {}, .from = 1};
  TcpGreeting nobody{.token = token_, .from = kRanks};
  TcpGreeting other_version{.token = token_, .version = 99, .from = 1};
  const std::string http = "GET / HTTP/1.1\r\nHost: somebody\r\n\r\n";
  EXPECT_TRUE(closed(end(0), stranger(0, wrong_token)));
  EXPECT_TRUE(closed(end(0), stranger(0, nobody)));
  EXPECT_TRUE(closed(end(0), stranger(0, other_version)));
  EXPECT_TRUE(closed(end(0), stranger(0, std::as_bytes(std::span(http)))));
  expect_open(1, 0);
}

TEST_F(TcpTest, ManyWhoSayNothingKeepNobodyOut) {
  std::vector<base::UniqueFd> silent;
  for (std::size_t i = 0; i < TcpListener::kMostStrangers + 20; ++i) {
    silent.push_back(stranger(0, std::as_bytes(std::span("half a greeting").first(5))));
    end(0).wait_for_activity(100us);
  }
  EXPECT_TRUE(closed(end(0), silent.front()));  // the oldest goes
  expect_open(2, 0);
}

TEST_F(TcpTest, AGreetingMayComeInPieces) {
  const TcpGreeting greeting{.token = token_, .from = 1};
  const TcpHeader header{.length = 3, .tag = 9};
  Bytes all(sizeof greeting + sizeof header + 3, std::byte{42});
  std::memcpy(all.data(), &greeting, sizeof greeting);
  std::memcpy(all.data() + sizeof greeting, &header, sizeof header);
  const auto socket = stranger(0, std::span(all).first(1));
  Bytes in(3);
  const auto receive = end(0).receive(1, 9, in);
  for (std::size_t i = 1; i < all.size(); ++i) {
    EXPECT_FALSE(receive->test());
    ASSERT_EQ(::send(socket.get(), &all[i], 1, 0), 1);
    end(0).wait_for_activity(10ms);
  }
  finish(end(0), *receive);
  EXPECT_EQ(in, Bytes(3, std::byte{42}));
}

TEST_F(TcpTest, ASecondCallerInTheNameOfARankIsNotHeard) {
  expect_open(1, 0);
  const TcpGreeting greeting{.token = token_, .from = 1};
  EXPECT_TRUE(closed(end(0), stranger(0, greeting)));
  expect_open(1, 0);
}

TEST_F(TcpTest, AnEndWithoutFarewellIsNotALeave) {
  const TcpGreeting greeting{.token = token_, .from = 1};
  auto socket = stranger(0, greeting);
  Bytes in(10);
  const auto receive = end(0).receive(1, 9, in);
  EXPECT_FALSE(receive->test());
  socket.reset();
  EXPECT_EQ(loss(end(0), *receive, 1), "rank 1 closed its connections before it said that it leaves");
}

TEST_F(TcpTest, WhatIsSentToOneWhoHasLeftGoesNowhere) {
  const Bytes out(std::size_t{64} << 20);  // more than any kernel keeps
  const auto send = end(0).send(1, 9, out);
  for (int i = 0; i < 10; ++i) {  // as much as the kernel takes
    EXPECT_FALSE(send->test());
    end(0).wait_for_activity(1ms);
  }
  ends_[1].reset();
  finish(end(0), *send);
  Bytes in(10);
  EXPECT_EQ(loss(end(0), *end(0).receive(1, 9, in), 1),
            "rank 1 has shut down its Context");  // though it never said anything else
}

TEST_F(TcpTest, ASendToOneWhoIsGoneFails) {
  auto listener = cluster::listen_at("127.0.0.1");
  TcpWorld world{0, token_, std::move(listener.socket), addresses_};
  listener = cluster::listen_at("127.0.0.1");
  world.addresses[1] = *cluster::socket_address("127.0.0.1", listener.port);
  const auto alone = make_tcp(std::move(world), counters_);
  const Bytes out(std::size_t{64} << 20);
  const auto send = alone->send(1, 9, out);
  EXPECT_FALSE(send->test());
  listener.socket.reset();  // the kernel had answered for it
  EXPECT_NE(loss(*alone, *send, 1), "nothing");
  EXPECT_NE(loss(*alone, *alone->send(1, 9, out), 1), "nothing");
}

// A rank may leave because another died: the monitor's word comes first, and if it says nothing the transport does.
TEST_F(TcpTest, TheMonitorNamesTheCause) {
  cluster::Liveness liveness;
  Bytes in(10);
  const auto receive = awaited_from_a_leaver(liveness, in);
  end(0).wait_for_activity(1s);
  EXPECT_FALSE(receive->test());  // gone, but not judged yet
  liveness.report_loss(2, "rank 2 died");
  EXPECT_EQ(loss(end(0), *receive, 2), "rank 2 died");
}

// Perhaps it has left, perhaps it died: the monitor would know of that.
TEST_F(TcpTest, WhatIsSentToOneWhoseDoorIsShutGoesNowhereWhileTheMonitorIsContent) {
  cluster::Liveness liveness;
  end(0).set_liveness(&liveness);
  ends_[1].reset();
  ends_[2].reset();
  const Bytes out(10);
  finish(end(0), *end(0).send(1, 9, out));
  liveness.report_loss(2, "rank 2 died");
  EXPECT_EQ(loss(end(0), *end(0).send(2, 9, out), 2), "rank 2 died");
}

TEST_F(TcpTest, ASilentMonitorIsNotWaitedForLong) {
  cluster::Liveness liveness;
  Bytes in(10);
  const auto receive = awaited_from_a_leaver(liveness, in);
  EXPECT_EQ(loss(end(0), *receive, 1), "rank 1 has shut down its Context");
}

// What nobody waits for is left with the kernel, which holds the sender back.
TEST_F(TcpTest, ASenderIsHeldBackUntilSomebodyReceives) {
  const Bytes out = pattern(0, 1, 1, std::size_t{64} << 20);
  const auto send = end(0).send(1, 9, out);
  for (int i = 0; i < 50; ++i) {
    EXPECT_FALSE(send->test());
    end(0).wait_for_activity(1ms);
    end(1).wait_for_activity(1ms);
  }
  Bytes in(out.size());
  const auto receive = end(1).receive(0, 9, in);
  const base::Deadline deadline(60s);
  while (!receive->test() && !deadline.passed()) send->test();
  EXPECT_TRUE(send->test());
  EXPECT_EQ(in, out);
}

// Whoever has just got a message may wait for the next one in a moment; taken before, it is copied once more.
TEST_F(TcpTest, TheNextMessageStaysWithTheKernelUntilItsReceiverHasHadAMoment) {
  constexpr Tag kMessages = 5;
  const Bytes out = pattern(0, 1, 1, 5000);
  std::vector<std::unique_ptr<Transfer>> sends;
  for (Tag tag = 0; tag < kMessages; ++tag) sends.push_back(end(0).send(1, tag, out));
  for (const auto& send : sends) finish(end(0), *send);
  Bytes never(1);
  const auto waits = end(1).receive(0, 77, never);  // somebody waits for something all the time
  for (Tag tag = 0; tag < kMessages; ++tag) {
    Bytes in(out.size());
    const auto receive = end(1).receive(0, tag, in);
    finish(end(1), *receive);
    EXPECT_EQ(in, out);
  }
  EXPECT_EQ(counters_.bytes_early.value(), 0U);
  finish(end(0), *end(0).send(1, 77, Bytes(1)));
  finish(end(1), *waits);
}

TEST_F(TcpTest, MessagesThatNobodyWaitsForAreNotInTheWay) {
  constexpr Tag kMessages = 5;
  const Bytes out = pattern(0, 1, 1, 5000);
  std::vector<std::unique_ptr<Transfer>> sends;
  for (Tag tag = 0; tag < kMessages; ++tag) sends.push_back(end(0).send(1, tag, out));
  for (const auto& send : sends) finish(end(0), *send);
  for (Tag tag = kMessages; tag-- > 0;) {
    Bytes in(out.size());
    const auto receive = end(1).receive(0, tag, in);
    finish(end(1), *receive);
    EXPECT_EQ(in, out);
  }
  EXPECT_EQ(counters_.bytes_early.value(), (kMessages - 1) * out.size());
}

// A rank that has left was in order, though what it said before is still to be read, and not waited for yet.
TEST_F(TcpTest, OneThatHasLeftIsNotLostOverWhatItSaidBefore) {
  expect_open(0, 1);
  expect_open(1, 0);
  const Bytes out = pattern(1, 0, 1, 5000);
  Bytes first(out.size());
  const auto receive = end(0).receive(1, 1, first);
  for (Tag tag = 1; tag <= 3; ++tag) finish(end(1), *end(1).send(0, tag, out));
  ends_[1].reset();
  for (int i = 0; i < 5; ++i) end(0).wait_for_activity(20ms);  // both connections have ended
  finish(end(0), *end(0).send(1, 9, out));                     // goes nowhere
  finish(end(0), *receive);
  EXPECT_EQ(first, out);
  for (Tag tag = 2; tag <= 3; ++tag) {
    Bytes in(out.size());
    finish(end(0), *end(0).receive(1, tag, in));
    EXPECT_EQ(in, out);
  }
}

// Though rank 1 leaves with something unread, and something more comes afterwards.
TEST_F(TcpTest, LastWordsArriveWhatever) {
  expect_open(0, 1);
  const Bytes last = pattern(1, 0, 1, std::size_t{2} << 20);
  const Bytes unread(1000);
  const auto never_read = end(0).send(1, 8, unread);
  finish(end(0), *never_read);
  Bytes in(last.size());
  const auto receive = end(0).receive(1, 9, in);
  std::thread leaver([&] {
    auto send = end(1).send(0, 9, last);
    finish(end(1), *send);
    send.reset();
    ends_[1].reset();
  });
  std::vector<std::unique_ptr<Transfer>> more;
  const base::Deadline deadline(30s);
  while (!receive->test() && !deadline.passed()) {
    if (more.size() < 100) more.push_back(end(0).send(1, 8, unread));
    end(0).wait_for_activity(1ms);
  }
  leaver.join();
  EXPECT_TRUE(in == last);
}

// A rank that leaves at once, with a message that would have made the connection: the lower one calls by itself, the
// higher one would have waited a moment for the other's call.
TEST_F(TcpTest, FirstWordsMayBeTheLast) {
  for (const auto& [from, to] : {std::pair{0, 1}, std::pair{2, 1}}) {
    const Bytes out = pattern(from, to, 1, 5000);
    Bytes in(out.size());
    end(from).send(to, 9, out).reset();
    ends_[static_cast<std::size_t>(from)].reset();
    finish(end(to), *end(to).receive(from, 9, in));
    EXPECT_EQ(in, out);
    const auto more = end(to).receive(from, 9, in);
    EXPECT_NE(loss(end(to), *more, from).find("has shut down its Context"), std::string::npos);
  }
}

TEST_F(TcpTest, WhoCallsOneThatIsLeavingIsToldSo) {
  const Bytes much = pattern(1, 0, 1, std::size_t{64} << 20);  // which rank 0 does not take
  end(1).send(0, 9, much).reset();
  std::thread leaver([&] { ends_[1].reset(); });
  std::this_thread::sleep_for(200ms);
  Bytes in(10);
  const auto send = end(2).send(1, 9, in);
  const auto receive = end(2).receive(1, 9, in);
  EXPECT_NE(loss(end(2), *receive, 1).find("has shut down its Context"), std::string::npos);
  leaver.join();
}

// Rank 2 has called and gets no answer, for which a descriptor is missing.
TEST_F(TcpTest, AFarewellThatFailsIsNobodyElsesMatter) {
  const Bytes out(10);
  Bytes in(10);
  const auto sent = end(2).send(0, 9, out);
  const auto received = end(0).receive(2, 9, in);
  finish(end(2), *sent);
  finish(end(0), *received);
  expect_open(1, 0);
  expect_open(0, 1);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  ends_[0].reset();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const auto from_1 = end(1).receive(0, 9, in);
  EXPECT_NE(loss(end(1), *from_1, 0).find("has shut down its Context"), std::string::npos);
  const auto from_2 = end(2).receive(0, 9, in);
  EXPECT_NE(loss(end(2), *from_2, 0).find("closed its connections"), std::string::npos);
}

// What an operation that has failed leaves behind: its memory is free, and the connection goes on with whole messages.
TEST_F(TcpTest, AbandonedTransfersLeaveTheirMemoryAlone) {
  constexpr std::size_t kSize = std::size_t{16} << 20;
  expect_open(0, 1);
  for (const bool begun : {false, true}) {
    auto out = std::make_unique<Bytes>(pattern(0, 1, 1, kSize));
    auto in = std::make_unique<Bytes>(kSize);
    auto send = end(0).send(1, 9, *out);
    auto receive = end(1).receive(0, 9, *in);
    for (int i = 0; begun && i < 3; ++i) {
      send->test();
      receive->test();
    }
    send.reset();
    receive.reset();
    out.reset();
    in.reset();
    Bytes next(100);
    const Bytes wanted = pattern(0, 1, 2, next.size());
    const auto sent = end(0).send(1, 9, wanted);
    const auto received = end(1).receive(0, 9, next);
    const base::Deadline deadline(30s);
    while (!received->test() && !deadline.passed()) sent->test();
    EXPECT_EQ(next, wanted);
  }
}

// Ranks that had nothing to say to each other so far.
TEST_F(TcpTest, AReceiveEndsWhenItsSenderGoesWithoutAWord) {
  Bytes in(10);
  const auto receive = end(0).receive(1, 9, in);
  EXPECT_FALSE(receive->test());
  ends_[1].reset();
  EXPECT_NE(loss(end(0), *receive, 1), "nothing");
}

// Sockets of this process that are connected: both ends of each connection.
int connected_sockets() {
  int count = 0;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    count += getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &length) == 0 ? 1 : 0;
  }
  return count;
}

// Either end may be the first to speak; descriptors are two an end, one for each direction.
TEST_F(TcpTest, TwoRanksHaveOneConnection) {
  expect_open(0, 1);
  expect_open(1, 0);
  EXPECT_EQ(connected_sockets(), 4);
  expect_open(2, 1);
  expect_open(1, 2);
  EXPECT_EQ(connected_sockets(), 8);
}

// The higher rank does not wait for a call for ever, nor the lower one for an answer.
TEST_F(TcpTest, BothMaySpeakFirst) {
  const Bytes out{std::byte{3}};
  Bytes low(1);
  Bytes high(1);
  const auto to_high = end(0).send(1, 1, out);
  const auto to_low = end(1).send(0, 1, out);
  const auto at_high = end(1).receive(0, 1, high);
  const auto at_low = end(0).receive(1, 1, low);
  const base::Deadline deadline(10s);
  while (!(to_high->test() & to_low->test() & at_high->test() & at_low->test())) ASSERT_FALSE(deadline.passed());
  EXPECT_EQ(low, out);
  EXPECT_EQ(high, out);
}

TEST_F(TcpTest, CountsWhatItCarries) {
  expect_open(0, 1);
  expect_open(1, 2);
  EXPECT_EQ(counters_.messages_sent.value(), 2U);
  EXPECT_EQ(counters_.bytes_on_wire.value(), 2U);
}

}  // namespace
}  // namespace kolo::transport
