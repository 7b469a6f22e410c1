// Leaving over TCP: what a rank says last arrives, and whoever hears nothing of it is told by the end of a connection.
#include <sys/resource.h>

#include <thread>
#include <utility>

#include "base/deadline.h"
#include "unit/transport/tcp_fixture.h"

namespace kolo::transport {
namespace {

constexpr const char* kLeft = "has shut down its Context";

// While it lives no descriptor is to be had.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoDescriptors() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_{};
};

TEST_F(TcpTest, AnEndWithoutFarewellIsNotALeave) {
  const TcpGreeting greeting{.token = token_, .from = 1};
  auto socket = stranger(0, greeting);
  Bytes in(10);
  const auto receive = end(0).receive(1, 9, in);
  EXPECT_FALSE(receive->test());
  socket.reset();
  EXPECT_EQ(loss(end(0), *receive, 1), "rank 1 closed its connections without shutting down its Context");
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
    EXPECT_NE(loss(end(to), *more, from).find(kLeft), std::string::npos);
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
  EXPECT_NE(loss(end(2), *receive, 1).find(kLeft), std::string::npos);
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
  {
    const NoDescriptors none;
    ends_[0].reset();
  }
  const auto from_1 = end(1).receive(0, 9, in);
  EXPECT_NE(loss(end(1), *from_1, 0).find(kLeft), std::string::npos);
  const auto from_2 = end(2).receive(0, 9, in);
  EXPECT_NE(loss(end(2), *from_2, 0).find("closed its connections"), std::string::npos);
}

// Ranks that had nothing to say to each other so far.
TEST_F(TcpTest, AReceiveEndsWhenItsSenderGoesWithoutAWord) {
  Bytes in(10);
  const auto receive = end(0).receive(1, 9, in);
  EXPECT_FALSE(receive->test());
  ends_[1].reset();
  EXPECT_NE(loss(end(0), *receive, 1), "nothing");
}

// Nobody can be let in at the door, though somebody stands there when the last words begin, and comes while they go on.
TEST_F(TcpTest, WhoCannotBeLetInIsNobodyElsesMatter) {
  for (const bool later : {false, true}) {
    SCOPED_TRACE(later);
    const Rank leaver = later ? 1 : 0;
    expect_open(2, leaver);
    expect_open(leaver, 2);
    const Bytes out = pattern(leaver, 2, 1, later ? std::size_t{8} << 20 : 10);
    end(leaver).send(2, 9, out).reset();
    base::UniqueFd visitor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto& door = addresses_[static_cast<std::size_t>(leaver)];
    if (!later) {
      ASSERT_EQ(connect(visitor.get(), door.get(), door.length), 0);
    }
    Bytes in(out.size());
    const auto receive = end(2).receive(leaver, 9, in);
    const NoDescriptors none;
    std::thread leaving([&] { ends_[static_cast<std::size_t>(leaver)].reset(); });
    std::this_thread::sleep_for(100ms);
    if (later) {
      EXPECT_EQ(connect(visitor.get(), door.get(), door.length), 0);
      std::this_thread::sleep_for(50ms);
    }
    finish(end(2), *receive);
    EXPECT_TRUE(in == out);
    EXPECT_NE(loss(end(2), *end(2).receive(leaver, 9, in), leaver).find(kLeft), std::string::npos);
    leaving.join();
  }
}

// Though its call, all that it said and its farewell are still where nobody has looked.
TEST_F(TcpTest, WhatIsSentToOneThatCalledAndLeftGoesNowhere) {
  expect_open(2, 0);  // rank 0's end is under way
  const Bytes out = pattern(1, 0, 1, 10);
  end(1).send(0, 9, out).reset();
  ends_[1].reset();
  finish(end(0), *end(0).send(1, 9, out));
  Bytes in(out.size());
  finish(end(0), *end(0).receive(1, 9, in));
  EXPECT_EQ(in, out);
}

TEST_F(TcpTest, WhatIsSentToOneWhoseFarewellIsUnreadGoesNowhere) {
  expect_open(0, 1);
  expect_open(1, 0);
  const Bytes out(10);
  ends_[1].reset();
  const auto first = end(0).send(1, 9, out);
  std::this_thread::sleep_for(20ms);  // until the kernel knows that nobody takes it
  finish(end(0), *end(0).send(1, 9, out));
}

// Of two connections the one that this rank sends on ends, and the other one does not: its next message may still come.
TEST_F(TcpTest, AnEndOfOneConnectionIsNotTakenForTheOthers) {
  auto listener = cluster::listen_at("127.0.0.1");
  const auto address = *cluster::socket_address("127.0.0.1", listener.port);
  TcpWorld world{0, token_, std::move(listener.socket), addresses_};
  auto other = cluster::listen_at("127.0.0.1");
  world.addresses[1] = *cluster::socket_address("127.0.0.1", other.port);
  const auto alone = make_tcp(std::move(world), counters_);
  const Bytes out(std::size_t{64} << 20);
  const auto send = alone->send(1, 9, out);
  EXPECT_FALSE(send->test());
  addresses_[0] = address;
  const auto caller = stranger(0, TcpGreeting{.token = token_, .from = 1});
  alone->wait_for_activity(100ms);
  other.socket.reset();  // nobody has answered for it
  EXPECT_NE(loss(*alone, *send, 1), "nothing");
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) alone->wait_for_activity(20ms);
  EXPECT_GT(std::chrono::steady_clock::now() - begin, 100ms) << "it waits for nothing any more";
}

// It left before it had read who calls, so it could tell nobody.
TEST_F(TcpTest, WhatIsSentToOneThatNeverHeardOfItGoesNowhereWhileTheMonitorIsContent) {
  for (const bool stranger : {false, true}) {
    const cluster::Liveness liveness;
    const Rank leaver = stranger ? 2 : 1;
    end(0).set_liveness(&liveness);
    const Bytes out(10);
    const auto send = end(0).send(leaver, 9, out);  // connects, and says who it is at its next look
    if (stranger) end(leaver).wait_for_activity(10ms);
    ends_[static_cast<std::size_t>(leaver)].reset();
    finish(end(0), *send);  // it is no loss, of which the monitor says nothing
  }
}

}  // namespace
}  // namespace kolo::transport
