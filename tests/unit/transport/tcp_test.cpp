// What is particular to TCP: strangers at the door, how many connections there are, and what is left with the kernel.
#include <cstring>

#include "base/deadline.h"
#include "transport/tcp_listener.h"
#include "unit/transport/tcp_fixture.h"

namespace kolo::transport {
namespace {

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
