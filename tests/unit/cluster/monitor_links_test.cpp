// Connections over the loopback interface, pumped by hand: several ends in one thread, and strangers as raw sockets.
#include "cluster/monitor_links.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "base/deadline.h"
#include "cluster/listener.h"
#include "kolo/error.h"

namespace kolo::cluster {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

Token token(int seed) {
  Token made{};
  made.fill(static_cast<std::byte>(seed));
  return made;
}

std::vector<std::byte> frame(const Message& message) {
  const auto bytes = encode(message);
  std::vector<std::byte> all(4 + bytes.size());
  for (std::size_t i = 0; i < 4; ++i) all[i] = static_cast<std::byte>(bytes.size() >> (8 * i));
  std::copy(bytes.begin(), bytes.end(), all.begin() + 4);
  return all;
}

class End final : public LinksHost {
 public:
  End(Rank rank, Listener listener, const std::vector<SocketAddress>& addresses, std::chrono::milliseconds call_time,
      std::chrono::milliseconds greeting_time = 3000ms)
      : links({rank, token(5), std::move(listener.socket), addresses, call_time, greeting_time}, *this) {}
  void received(Rank from, Message message) override {
    if (const auto* news = std::get_if<News>(&message)) got.emplace_back(from, news->standings.size());
    if (std::holds_alternative<Beat>(message)) ++beats;
    if (std::holds_alternative<Goodbye>(message)) ++goodbyes;
  }
  void closed(Rank rank, bool whole) override {
    gone.push_back(rank);
    all_whole = all_whole && whole;
  }
  void refused(Rank rank, bool at_once) override {
    refusals.push_back(rank);
    all_at_once = all_at_once && at_once;
  }
  void failed(Rank rank, bool silent) override {
    failures.push_back(rank);
    all_silent = all_silent && silent;
  }

  void out_of_sockets(Rank rank, const std::string& why) override {
    out_of.push_back("rank " + std::to_string(rank) + ": " + why);
  }

  MonitorLinks links;
  std::vector<std::string> out_of;
  std::vector<std::pair<Rank, std::size_t>> got;  // news: from whom, how long
  std::vector<Rank> gone, refusals, failures;
  int beats = 0;
  int goodbyes = 0;
  bool all_whole = true;
  bool all_at_once = true;
  bool all_silent = true;
};

class LinksTest : public testing::Test {
 protected:
  void make_ends(int count, std::chrono::milliseconds call_time = 3000ms) {
    std::vector<Listener> listeners;
    for (int i = 0; i < count; ++i) {
      listeners.push_back(listen_at("127.0.0.1"));
      addresses_.push_back(*socket_address("127.0.0.1", listeners.back().port));
    }
    for (Rank rank = 0; rank < count; ++rank) {
      ends_.push_back(
          std::make_unique<End>(rank, std::move(listeners[static_cast<std::size_t>(rank)]), addresses_, call_time));
    }
  }
  End& end(Rank rank) { return *ends_[static_cast<std::size_t>(rank)]; }

  void pump_once() {
    for (const auto& each : ends_) {
      if (each == nullptr) continue;
      std::vector<pollfd> entries;
      each->links.add_to(entries);
      poll(entries.data(), entries.size(), 1);
      each->links.handle(entries);
      each->links.tick();
    }
  }
  bool pump_until(const std::function<bool()>& done, std::chrono::milliseconds limit = 10s) {
    const base::Deadline deadline(limit);
    while (!done()) {
      if (deadline.passed()) return false;
      pump_once();
    }
    return true;
  }
  void connect_two() {
    end(0).links.call(1);
    ASSERT_TRUE(pump_until([&] { return end(0).links.connected(1) && end(1).links.connected(0); }));
  }

  base::UniqueFd stranger(Rank at) {
    base::UniqueFd made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto& address = addresses_[static_cast<std::size_t>(at)];
    EXPECT_EQ(connect(made.get(), address.get(), address.length), 0);
    return made;
  }
  static void say(const base::UniqueFd& from, std::span<const std::byte> bytes) {
    static_cast<void>(!::send(from.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  // Whether the other end has hung up without a word.
  bool hung_up(const base::UniqueFd& socket, std::chrono::milliseconds limit = 10s) {
    bool silent = true;
    const bool closed = pump_until(
        [&] {
          char byte = 0;
          const auto count = recv(socket.get(), &byte, 1, MSG_DONTWAIT);
          silent = silent && count <= 0;
          return count == 0 || (count < 0 && errno == ECONNRESET);
        },
        limit);
    return closed && silent;
  }

  std::vector<SocketAddress> addresses_;
  std::vector<std::unique_ptr<End>> ends_;
};

TEST_F(LinksTest, MessagesArriveInOrderAlsoThoseSentBeforeTheConnection) {
  make_ends(2);
  for (std::size_t i = 0; i < 100; ++i) end(0).links.send(1, News{Standings(i)});
  ASSERT_TRUE(pump_until([&] { return end(1).got.size() == 100; }));
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(end(1).got[i], (std::pair<Rank, std::size_t>{0, i}));
  end(1).links.send(0, News{Standings(7)});
  end(1).links.beat();
  ASSERT_TRUE(pump_until([&] { return !end(0).got.empty(); }));
  EXPECT_EQ(end(0).got.front().second, 7U);
}

TEST_F(LinksTest, TwoThatCallEachOtherLoseNothing) {
  make_ends(2);
  end(0).links.send(1, News{Standings(1)});
  end(1).links.send(0, News{Standings(2)});
  ASSERT_TRUE(pump_until([&] { return !end(0).got.empty() && !end(1).got.empty(); }));
  end(0).links.close_all();
  ASSERT_TRUE(pump_until([&] { return !end(1).gone.empty(); }));
  for (int i = 0; i < 20; ++i) pump_once();
  EXPECT_THAT(end(1).gone, ElementsAre(0));  // told once, after the last connection
  end(1).links.call(0);
  ASSERT_TRUE(pump_until([&] { return !end(1).refusals.empty(); }));  // although end 0 still exists
}

TEST_F(LinksTest, AGoodbyeAlsoReachesWhoHasNotGreetedBackYet) {
  make_ends(2);
  end(0).links.call(1);
  // Only end 0 runs, until it has sent its greeting.
  for (int i = 0; i < 5; ++i) {
    std::vector<pollfd> entries;
    end(0).links.add_to(entries);
    poll(entries.data(), entries.size(), 1);
    end(0).links.handle(entries);
  }
  EXPECT_FALSE(end(0).links.connected(1));
  end(0).links.say_goodbye();
  end(0).links.close_all();
  ASSERT_TRUE(pump_until([&] { return !end(1).gone.empty(); }));
  EXPECT_EQ(end(1).goodbyes, 1);
}

TEST_F(LinksTest, WhoNeverListenedIsRefusedAndWhoEndedIsGone) {
  make_ends(3);
  connect_two();
  ends_[1].reset();
  ASSERT_TRUE(pump_until([&] { return !end(0).gone.empty(); }));
  EXPECT_THAT(end(0).gone, ElementsAre(1));
  EXPECT_TRUE(end(0).all_whole);
  end(0).links.send(1, News{});
  end(2).links.probe(1);
  end(2).links.probe(0);
  ASSERT_TRUE(pump_until([&] { return !end(0).refusals.empty() && !end(2).refusals.empty(); }));
  ASSERT_TRUE(pump_until([&] { return !end(2).failures.empty(); }));
  EXPECT_THAT(end(2).refusals, ElementsAre(1));
  EXPECT_THAT(end(2).failures, ElementsAre(0));  // somebody answers there
  EXPECT_TRUE(end(2).all_at_once);
}

// Rank 1 is stopped: its host takes the call, and nobody accepts it.
class StoppedRankTest : public LinksTest {
 protected:
  void call(std::chrono::milliseconds greeting_time) {
    addresses_ = {*socket_address("127.0.0.1", deaf_.port), *socket_address("127.0.0.1", deaf_.port)};
    ends_.push_back(std::make_unique<End>(0, listen_at("127.0.0.1"), addresses_, kCallTime, greeting_time));
    end(0).links.send(1, News{Standings(3)});
    begin_ = MonitorLinks::Clock::now();
  }
  // Well over the time of a call.
  void pump_for_long() {
    static_cast<void>(pump_until([&] { return MonitorLinks::Clock::now() > begin_ + 5 * kCallTime; }));
  }

  static constexpr std::chrono::milliseconds kCallTime = 100ms;
  Listener deaf_ = listen_at("127.0.0.1");
  MonitorLinks::Clock::time_point begin_;
};

TEST_F(StoppedRankTest, HasTheTimeOfASilenceToAnswer) {
  call(1000ms);
  ASSERT_TRUE(pump_until([&] { return !end(0).failures.empty(); }));
  EXPECT_GE(MonitorLinks::Clock::now() - begin_, 1000ms);
  EXPECT_THAT(end(0).failures, ElementsAre(1));
  EXPECT_TRUE(end(0).all_silent);
  EXPECT_THAT(end(0).refusals, IsEmpty());
}

TEST_F(StoppedRankTest, IsWaitedForWithoutEndWhereSilenceIsNoLoss) {
  call(0ms);
  pump_for_long();
  end(0).links.forgive(1h);
  pump_for_long();
  EXPECT_THAT(end(0).failures, IsEmpty());
  // It wakes.
  ends_.push_back(std::make_unique<End>(1, std::move(deaf_), addresses_, kCallTime));
  ASSERT_TRUE(pump_until([&] { return !end(1).got.empty(); }));
  EXPECT_EQ(end(1).got.front(), (std::pair<Rank, std::size_t>{0, 3}));
}

TEST_F(StoppedRankTest, ThatEndsAfterAWhileWasNotWithinReachAllTheTime) {
  call(0ms);
  static_cast<void>(pump_until([&] { return MonitorLinks::Clock::now() > begin_ + 700ms; }));
  deaf_.socket.reset();
  ASSERT_TRUE(pump_until([&] { return !end(0).refusals.empty(); }));
  EXPECT_FALSE(end(0).all_at_once);
  EXPECT_THAT(end(0).failures, IsEmpty());
}

// Taken and hung up on, again and again: the waits for a greeting are short, and the call as a whole has its time.
TEST_F(StoppedRankTest, WhoAlwaysHangsUpIsGivenUpInTheTimeOfACall) {
  call(0ms);
  const auto hang_up = [&] { return accept_at(deaf_.socket.get()); };
  ASSERT_TRUE(pump_until([&] {
    static_cast<void>(hang_up());
    return !end(0).failures.empty();
  }));
  EXPECT_FALSE(end(0).all_silent);
}

TEST_F(StoppedRankTest, IsProbedNoLongerThanACallTakes) {
  call(0ms);
  end(0).links.probe(1);
  ASSERT_TRUE(pump_until([&] { return !end(0).failures.empty(); }));
  EXPECT_THAT(end(0).failures, ElementsAre(1));
}

TEST_F(LinksTest, WrongGreetingsAreHungUpOnWithoutAWord) {
  make_ends(2);
  connect_two();
  const std::vector<Message> greetings{Greeting{token(6), 0, 1}, Greeting{token(5), 0, 0}, Greeting{token(5), 1, 1},
                                       Greeting{token(5), 2, 1}};
  for (const auto& greeting : greetings) {
    const auto caller = stranger(1);
    say(caller, frame(greeting));
    EXPECT_TRUE(hung_up(caller));
  }
  const std::vector<std::byte> garbage(5000, std::byte{0x5a});
  const std::vector<std::byte> huge{std::byte{255}, std::byte{255}, std::byte{255}, std::byte{255}};
  for (const auto& bytes : {garbage, huge, frame(Beat{}), frame(News{Standings(3)})}) {
    const auto caller = stranger(1);
    say(caller, bytes);
    EXPECT_TRUE(hung_up(caller));
  }
  end(0).links.send(1, News{Standings(4)});
  ASSERT_TRUE(pump_until([&] { return !end(1).got.empty(); }));
  EXPECT_THAT(end(1).gone, IsEmpty());
}

TEST_F(LinksTest, ASlowGreetingIsCutOff) {
  make_ends(2);
  const auto caller = stranger(1);
  const auto greeting = frame(Greeting{token(5), 0, 1});
  say(caller, std::span(greeting).first(9));
  const auto begin = MonitorLinks::Clock::now();
  EXPECT_TRUE(hung_up(caller, MonitorLinks::kGreetingTime + 5s));
  EXPECT_GE(MonitorLinks::Clock::now() - begin, MonitorLinks::kGreetingTime - 100ms);
  connect_two();
}

TEST_F(LinksTest, AGreetingAndMessagesInSmallPiecesAreUnderstood) {
  make_ends(2);
  const auto caller = stranger(1);
  auto bytes = frame(Greeting{token(5), 0, 1});
  for (const std::size_t count : {2, 3, 4}) {
    const auto more = frame(News{Standings(count)});
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  for (const std::byte byte : bytes) {
    say(caller, std::span(&byte, 1));
    pump_once();
  }
  ASSERT_TRUE(pump_until([&] { return end(1).got.size() == 3; }));
  EXPECT_EQ(end(1).got[2].second, 4U);
}

TEST_F(LinksTest, GarbageOfAKnownRankClosesItsConnection) {
  make_ends(2);
  const auto caller = stranger(1);
  say(caller, frame(Greeting{token(5), 0, 1}));
  ASSERT_TRUE(pump_until([&] { return end(1).links.connected(0); }));
  say(caller, std::vector<std::byte>(64, std::byte{1}));
  ASSERT_TRUE(pump_until([&] { return !end(1).gone.empty(); }));
  EXPECT_THAT(end(1).gone, ElementsAre(0));
  EXPECT_FALSE(end(1).all_whole);
}

TEST_F(LinksTest, ACrowdOfStrangersKeepsNobodyOut) {
  make_ends(2);
  std::vector<base::UniqueFd> crowd;
  for (std::size_t i = 0; i < 4 * MonitorLinks::kMostStrangers; ++i) {
    crowd.push_back(stranger(1));
    if (i % 16 == 0) pump_once();
  }
  connect_two();
  std::vector<pollfd> entries;
  end(1).links.add_to(entries);
  EXPECT_LE(entries.size(), MonitorLinks::kMostStrangers + 3);
}

TEST_F(LinksTest, WithoutDescriptorsTheListenerRestsAndRecovers) {
  make_ends(2);
  connect_two();
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const auto caller = stranger(1);
  rlimit none = before;
  none.rlim_cur = 3;  // nothing new can be opened
  setrlimit(RLIMIT_NOFILE, &none);
  pump_once();
  std::vector<pollfd> entries;
  end(1).links.add_to(entries);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(entries.size(), 1U);  // the connection, and not the listener, which would be ready again at once
  say(caller, frame(Greeting{token(4), 0, 1}));
  EXPECT_TRUE(hung_up(caller));
}

TEST_F(LinksTest, WithoutDescriptorsNobodyElseIsHeldToBlame) {
  make_ends(2, 50ms);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit none = before;
  none.rlim_cur = 3;
  setrlimit(RLIMIT_NOFILE, &none);
  end(0).links.send(1, News{});
  pump_until([&] { return !end(0).out_of.empty(); });
  const auto since = std::chrono::steady_clock::now();
  pump_until([&] { return std::chrono::steady_clock::now() > since + 200ms; });  // several times as long as a call has
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_THAT(end(0).out_of, testing::ElementsAre("rank 1: Too many open files"));  // told once
  pump_until([&] { return !end(1).got.empty(); });                                  // nothing is lost by it
  EXPECT_TRUE(end(0).failures.empty());
}

}  // namespace
}  // namespace kolo::cluster
