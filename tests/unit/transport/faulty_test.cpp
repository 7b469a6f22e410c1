// The transport that misbehaves on purpose does exactly what it was told.
#include "support/faulty_transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "contract/transport_tools.h"
#include "kolo/error.h"
#include "transport/make.h"

namespace kolo::transport {
namespace {

using test::Bytes;
using test::pattern;

constexpr int kMany = 200;  // messages: enough that chances show

// Two ranks; rank 0's end misbehaves.
struct Pair {
  explicit Pair(const Faults& faults) : ends(make_inproc(2)) { ends[0] = make_faulty(std::move(ends[0]), faults); }
  Transport& faulty() { return *ends[0]; }
  Transport& sound() { return *ends[1]; }
  std::vector<std::unique_ptr<Transport>> ends;
};

// How many calls of test() a completed transfer takes until it says so; at most `most`.
int tests_until_done(Transfer& transfer, int most) {
  for (int tests = 1; tests <= most; ++tests) {
    if (transfer.test()) return tests;
  }
  return most + 1;
}

// Which of many messages to the sound end arrive; each travels on a tag of its own.
std::set<int> arrived(const Faults& faults) {
  Pair pair(faults);
  std::set<int> numbers;
  for (int number = 0; number < kMany; ++number) {
    const Bytes message = pattern(0, 1, number, 10);
    Bytes into(10);
    EXPECT_TRUE(pair.faulty().send(1, static_cast<Tag>(number), message)->test()) << "a dropped send completes too";
    if (!pair.sound().receive(0, static_cast<Tag>(number), into)->test()) continue;
    EXPECT_EQ(into, message);
    numbers.insert(number);
  }
  return numbers;
}

TEST(Faulty, WithoutFaultsItIsTransparent) {
  Pair pair({});
  EXPECT_EQ(pair.faulty().rank(), 0);
  EXPECT_EQ(pair.faulty().size(), 2);
  const Bytes out = pattern(0, 1, 1, 1000);
  Bytes in(1000);
  const auto send = pair.faulty().send(1, 7, out);
  const auto receive = pair.sound().receive(0, 7, in);
  EXPECT_TRUE(receive->test());
  EXPECT_TRUE(send->test());
  EXPECT_EQ(in, out);

  Bytes back(1000);
  const auto reverse = pair.faulty().receive(1, 8, back);
  EXPECT_FALSE(reverse->test());
  static_cast<void>(pair.sound().send(0, 8, in));
  EXPECT_TRUE(reverse->test());
  EXPECT_EQ(reverse->size(), 1000U);
  EXPECT_EQ(back, out);
}

TEST(Faulty, DelayHidesCompletionForSomeTestsAndLosesNothing) {
  constexpr int kMost = 6;
  const auto delays = [](std::uint64_t seed) {
    Pair pair({.seed = seed, .max_delay_tests = kMost});
    std::vector<int> counts;
    for (int number = 0; number < kMany; ++number) {
      const Bytes message = pattern(1, 0, number, 10);
      Bytes into(10);
      static_cast<void>(pair.sound().send(0, 1, message));
      const auto receive = pair.faulty().receive(1, 1, into);
      counts.push_back(tests_until_done(*receive, kMost + 1));
      EXPECT_EQ(into, message);
      EXPECT_EQ(receive->size(), 10U);
    }
    return counts;
  };
  const auto counts = delays(1);
  EXPECT_EQ(*std::min_element(counts.begin(), counts.end()), 1);
  EXPECT_EQ(*std::max_element(counts.begin(), counts.end()), kMost + 1);
  EXPECT_EQ(delays(1), counts) << "a seed is repeatable";
  EXPECT_NE(delays(2), counts);
}

TEST(Faulty, DropLosesTheGivenShareOfMessages) {
  EXPECT_EQ(arrived({.drop = 1}).size(), 0U);
  EXPECT_EQ(arrived({.drop = 0}).size(), static_cast<std::size_t>(kMany));
  const auto half = arrived({.seed = 3, .drop = 0.5});
  EXPECT_GT(half.size(), static_cast<std::size_t>(kMany / 4));
  EXPECT_LT(half.size(), static_cast<std::size_t>(kMany * 3 / 4));
  EXPECT_EQ(arrived({.seed = 3, .drop = 0.5}), half) << "a seed is repeatable";
}

TEST(Faulty, TruncateSendsTheFirstHalf) {
  Pair pair({.truncate = 1});
  for (const std::size_t size : {0U, 1U, 7U, 100'000U}) {
    const Bytes out = pattern(0, 1, 5, size);
    Bytes in(size, std::byte{0xee});
    const auto receive = pair.sound().receive(0, 1, in);
    EXPECT_TRUE(pair.faulty().send(1, 1, out)->test());
    ASSERT_TRUE(receive->test());
    const auto half = static_cast<std::ptrdiff_t>(size / 2);
    EXPECT_EQ(receive->size(), size / 2);
    EXPECT_TRUE(std::equal(in.begin(), in.begin() + half, out.begin()));
    EXPECT_TRUE(std::all_of(in.begin() + half, in.end(), [](std::byte byte) { return byte == std::byte{0xee}; }));
  }
}

TEST(Faulty, KillEndsSendingAndReceivingFromTheGivenTransferOn) {
  Pair pair({.kill_at = 3});
  const Bytes message = pattern(0, 1, 1, 10);
  Bytes into(10);
  const auto before = pair.faulty().receive(1, 2, into);     // the first
  EXPECT_TRUE(pair.faulty().send(1, 1, message)->test());    // the second
  const auto dead_send = pair.faulty().send(1, 1, message);  // from here on nothing
  const auto dead_receive = pair.faulty().receive(1, 3, into);

  Bytes at_the_peer(10);
  EXPECT_TRUE(pair.sound().receive(0, 1, at_the_peer)->test());
  const auto never = pair.sound().receive(0, 1, at_the_peer);
  static_cast<void>(pair.sound().send(0, 2, message));
  static_cast<void>(pair.sound().send(0, 3, message));
  EXPECT_TRUE(before->test());
  for (int tests = 0; tests < 100; ++tests) {
    EXPECT_FALSE(dead_send->test());
    EXPECT_FALSE(dead_receive->test());
    EXPECT_FALSE(never->test());
  }
}

// What it says about the peers is what the transport under it says.
TEST(Faulty, ChecksPeersThroughTheTransportUnderIt) {
  class Alarmed final : public Transport {
   public:
    [[nodiscard]] Rank rank() const noexcept override { return 0; }
    [[nodiscard]] int size() const noexcept override { return 2; }
    [[nodiscard]] std::unique_ptr<Transfer> send(Rank, Tag, std::span<const std::byte>) override { return nullptr; }
    [[nodiscard]] std::unique_ptr<Transfer> receive(Rank, Tag, std::span<std::byte>) override { return nullptr; }
    void wait_for_activity(std::chrono::microseconds) override {}
    void check_peers() override { throw PeerLostError(1, "rank 1 died"); }
    void wake() noexcept override {}
  };
  const auto faulty = make_faulty(std::make_unique<Alarmed>(), {});
  EXPECT_THROW(faulty->check_peers(), PeerLostError);
}

}  // namespace
}  // namespace kolo::transport
