#include "cluster/monitor_messages.h"

#include <gmock/gmock.h>

#include <numeric>
#include <random>

namespace kolo::cluster {
namespace {

Token token(int seed) {
  Token made{};
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = static_cast<std::byte>(seed + static_cast<int>(i));
  return made;
}

std::vector<Message> samples() {
  const Standings standings{{3, Condition::dead}, {70000, Condition::left}};
  const Agreement agreed{9, {0, 1, 5}};
  std::vector<Message> all;
  all.reserve(12);
  all.emplace_back(Greeting{token(7), 1, 2});
  all.emplace_back(Beat{});
  all.emplace_back(Goodbye{});
  all.emplace_back(News{standings, true, true});
  all.emplace_back(News{});
  all.emplace_back(Proposal{agreed, standings});
  all.emplace_back(Vote{1ULL << 63, true, true, 77, agreed, standings});
  all.emplace_back(Vote{});
  all.emplace_back(Verdict{agreed, true});
  all.emplace_back(Arrival{12, false});
  all.emplace_back(Question{1, 2, 3, "layer4.weight"});
  all.emplace_back(Reply{2, 1, 3, true, std::string(kLongestText, 'x')});
  return all;
}

TEST(MonitorMessages, ComeBackAsTheyWere) {
  for (const auto& message : samples()) {
    const auto back = decode(encode(message));
    ASSERT_TRUE(back.has_value()) << message.index();
    EXPECT_TRUE(*back == message) << message.index();
  }
}

TEST(MonitorMessages, TheLayoutIsFixed) {
  const std::vector<std::byte> expected{std::byte{7}, std::byte{0x02}, std::byte{0x01}, std::byte{0}, std::byte{0},
                                        std::byte{0}, std::byte{0},    std::byte{0},    std::byte{0}, std::byte{1}};
  EXPECT_EQ(encode(Arrival{0x0102, true}), expected);
  EXPECT_EQ(encode(Greeting{}).size(), kGreetingBytes);
}

// A list of thousands that lacks one.
TEST(MonitorMessages, ListsTravelAsRuns) {
  Agreement agreed{1, std::vector<Rank>(10000)};
  std::iota(agreed.members.begin(), agreed.members.end(), 0);
  agreed.members.erase(agreed.members.begin() + 50);
  const auto bytes = encode(Verdict{agreed, true});
  EXPECT_EQ(bytes.size(), 1U + 8 + 4 + 2 * 8 + 1);
  EXPECT_EQ(decode(bytes), Message(Verdict{agreed, true}));
  const Message in_any_order = Verdict{{1, {7, 3, 4, 4, 5, 0}}, false};
  EXPECT_EQ(decode(encode(in_any_order)), in_any_order);
}

TEST(MonitorMessages, RunsThatNobodyWritesAreRefused) {
  auto bytes = encode(Verdict{{1, {0, 1, 5}}, true});  // runs of 2 from 0, and of 1 from 5
  constexpr std::size_t kFirstLength = 1 + 8 + 4 + 4;
  for (const int length : {0, 5, 255}) {  // none, up to the next run, over it
    bytes[kFirstLength] = static_cast<std::byte>(length);
    EXPECT_EQ(decode(bytes).has_value(), length == 255) << length;
  }
  bytes[kFirstLength + 2] = std::byte{255};  // more ranks than there are
  EXPECT_FALSE(decode(bytes).has_value());
}

TEST(MonitorMessages, LongTextsAreCut) {
  const auto back = decode(encode(Question{0, 1, 2, std::string(2 * kLongestText, 'y')}));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(std::get<Question>(*back).operation.size(), kLongestText);
}

TEST(MonitorMessages, EveryCutAndEveryLongerOneIsRefused) {
  for (const auto& message : samples()) {
    auto bytes = encode(message);
    for (std::size_t length = 0; length < std::min<std::size_t>(bytes.size(), 300); ++length) {
      EXPECT_FALSE(decode(std::span(bytes).first(length)).has_value()) << message.index() << " cut to " << length;
    }
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode(bytes).has_value()) << message.index();
  }
}

TEST(MonitorMessages, CountsThatDidNotComeAreRefused) {
  // News of four thousand million ranks, in nine bytes.
  EXPECT_FALSE(decode(std::vector<std::byte>{std::byte{3}, std::byte{255}, std::byte{255}, std::byte{255},
                                             std::byte{255}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}})
                   .has_value());
  EXPECT_FALSE(decode(std::vector<std::byte>(kLongestMessage + 1)).has_value());
}

TEST(MonitorMessages, WhateverIsTakenWouldHaveBeenWritten) {
  std::mt19937 random(1);
  const auto all = samples();
  int taken = 0;
  for (int i = 0; i < 200'000; ++i) {
    auto bytes = encode(all[random() % all.size()]);
    if (bytes.size() > 200) continue;
    for (auto changes = random() % 4; changes > 0; --changes) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random() % 8 == 0 ? random() : random() % 6);
    }
    const auto message = decode(bytes);
    if (!message) continue;
    ++taken;
    ASSERT_EQ(encode(*message), bytes);
  }
  EXPECT_GT(taken, 10'000);
}

}  // namespace
}  // namespace kolo::cluster
