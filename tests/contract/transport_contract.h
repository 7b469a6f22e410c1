#pragma once
// What every Transport promises, as functions of one rank's end. All ranks call the same function together; an instance
// (threads or processes) makes the ends and calls them. Failures are exceptions, so that a thread's reach the test.
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "contract/transport_tools.h"
#include "kolo/error.h"
#include "transport/transport.h"

namespace kolo::test {

inline void keeps_order_within_a_tag(Transport& t) {
  constexpr int kCount = 50;
  std::vector<std::unique_ptr<Transfer>> transfers;
  std::vector<Bytes> out;
  std::vector<Bytes> in;
  for (int i = 0; i < kCount; ++i) {
    const auto size = static_cast<std::size_t>(i * 131 % 977);
    out.push_back(pattern(t.rank(), next_of(t), i, size));
    in.emplace_back(size);
  }
  for (int i = 0; i < kCount; ++i) {
    const auto at = static_cast<std::size_t>(i);
    transfers.push_back(t.receive(previous_of(t), 5, in[at]));
    transfers.push_back(t.send(next_of(t), 5, out[at]));
  }
  for (auto& transfer : transfers) finish(t, *transfer);
  for (int i = 0; i < kCount; ++i) {
    const auto at = static_cast<std::size_t>(i);
    require(in[at] == pattern(previous_of(t), t.rank(), i, in[at].size()),
            "message " + std::to_string(i) + " in order");
    require(transfers[2 * at]->size() == in[at].size(), "size of message " + std::to_string(i));
  }
}

// Sent 0..n-1, received n-1..0, all before the first is asked for: they come unexpected.
inline void matches_tags_out_of_order(Transport& t) {
  constexpr int kCount = 20;
  std::vector<std::unique_ptr<Transfer>> sends;
  std::vector<Bytes> out;
  for (int i = 0; i < kCount; ++i)
    out.push_back(pattern(t.rank(), next_of(t), i, static_cast<std::size_t>(1 + i * 50)));
  for (int i = 0; i < kCount; ++i) {
    sends.push_back(t.send(next_of(t), static_cast<Tag>(100 + i), out[static_cast<std::size_t>(i)]));
  }
  for (int i = kCount - 1; i >= 0; --i) {
    Bytes in(2000);
    const auto transfer = t.receive(previous_of(t), static_cast<Tag>(100 + i), in);
    finish(t, *transfer);
    in.resize(transfer->size());
    require(in == pattern(previous_of(t), t.rank(), i, static_cast<std::size_t>(1 + i * 50)), "tag picks its message");
  }
  for (auto& send : sends) finish(t, *send);
}

// Large messages under other tags than the first receive wants: they must not block the way.
inline void stores_large_unexpected_messages(Transport& t) {
  constexpr std::size_t kSize = 700'001;
  const Bytes first = pattern(t.rank(), next_of(t), 1, kSize);
  const Bytes second = pattern(t.rank(), next_of(t), 2, kSize);
  Bytes in_second(kSize);
  Bytes in_first(kSize);
  const auto send_first = t.send(next_of(t), 1, first);
  const auto send_second = t.send(next_of(t), 2, second);
  const auto receive_second = t.receive(previous_of(t), 2, in_second);
  finish(t, *receive_second);
  const auto receive_first = t.receive(previous_of(t), 1, in_first);
  finish(t, *receive_first);
  finish(t, *send_first);
  finish(t, *send_second);
  require(in_first == pattern(previous_of(t), t.rank(), 1, kSize), "first");
  require(in_second == pattern(previous_of(t), t.rank(), 2, kSize), "second");
}

inline void carries_every_size(Transport& t) {
  const std::vector<std::size_t> sizes{0,       1,       7,       47,      48,      49,        63,
                                       64,      65,      1000,    4096,    16'383,  65'536,    65'537,
                                       262'143, 262'144, 262'145, 300'000, 999'983, 2'097'152, 5'000'011};
  int number = 0;
  for (const std::size_t size : sizes) {
    const Bytes out = pattern(t.rank(), next_of(t), ++number, size);
    Bytes in(size + 3, std::byte{0x5a});
    const auto receive = t.receive(previous_of(t), 9, in);
    const auto send = t.send(next_of(t), 9, out);
    finish(t, *send, "send of " + std::to_string(size));
    finish(t, *receive, "receive of " + std::to_string(size));
    require(receive->size() == size, "size() of " + std::to_string(size));
    require(in[size] == std::byte{0x5a} && in[size + 2] == std::byte{0x5a}, "nothing written behind the message");
    in.resize(size);
    require(in == pattern(previous_of(t), t.rank(), number, size), "bytes of a message of " + std::to_string(size));
  }
}

// Everybody to everybody (itself too), large, all at once, sends tested first: progress must not depend on whose
// test() is called.
inline void moves_both_directions_at_once(Transport& t) {
  constexpr std::size_t kSize = 1'500'000;
  std::vector<Bytes> in(static_cast<std::size_t>(t.size()), Bytes(kSize));
  std::vector<Bytes> out;
  std::vector<std::unique_ptr<Transfer>> transfers;
  for (Rank peer = 0; peer < t.size(); ++peer) out.push_back(pattern(t.rank(), peer, 3, kSize));
  for (Rank peer = 0; peer < t.size(); ++peer)
    transfers.push_back(t.send(peer, 3, out[static_cast<std::size_t>(peer)]));
  for (Rank peer = 0; peer < t.size(); ++peer) {
    transfers.push_back(t.receive(peer, 3, in[static_cast<std::size_t>(peer)]));
  }
  for (auto& transfer : transfers) finish(t, *transfer);
  for (Rank peer = 0; peer < t.size(); ++peer) {
    require(in[static_cast<std::size_t>(peer)] == pattern(peer, t.rank(), 3, kSize), "from " + std::to_string(peer));
  }
}

inline void holds_many_in_flight(Transport& t) {
  constexpr int kRounds = 200;
  std::vector<std::unique_ptr<Transfer>> transfers;
  std::vector<Bytes> in;
  std::vector<Bytes> out;
  for (int i = 0; i < kRounds; ++i) {
    for (Rank peer = 0; peer < t.size(); ++peer) {
      const auto size = static_cast<std::size_t>((i * 7919 + peer) % 5000);
      out.push_back(pattern(t.rank(), peer, i, size));
      in.emplace_back(static_cast<std::size_t>((i * 7919 + t.rank()) % 5000));
    }
  }
  std::size_t at = 0;
  for (int i = 0; i < kRounds; ++i) {
    for (Rank peer = 0; peer < t.size(); ++peer, ++at) {
      transfers.push_back(t.send(peer, static_cast<Tag>(i % 5), out[at]));
      transfers.push_back(t.receive(peer, static_cast<Tag>(i % 5), in[at]));
    }
  }
  for (auto transfer = transfers.rbegin(); transfer != transfers.rend(); ++transfer) finish(t, **transfer);
  at = 0;
  for (int i = 0; i < kRounds; ++i) {
    for (Rank peer = 0; peer < t.size(); ++peer, ++at) {
      require(in[at] == pattern(peer, t.rank(), i, in[at].size()), "message " + std::to_string(i));
    }
  }
}

// The receive is an error, the send is not, and the next message is whole.
inline void refuses_a_message_that_does_not_fit(Transport& t) {
  for (const std::size_t size : {std::size_t{100}, std::size_t{600'000}}) {
    const Bytes out = pattern(t.rank(), next_of(t), 1, size);
    const Bytes out_after = pattern(t.rank(), next_of(t), 2, 50);
    Bytes in(size / 2);
    Bytes in_after(50);
    const auto receive = t.receive(previous_of(t), 11, in);
    const auto after = t.receive(previous_of(t), 11, in_after);
    const auto send = t.send(next_of(t), 11, out);
    const auto send_after = t.send(next_of(t), 11, out_after);
    bool refused = false;
    try {
      finish(t, *receive);
    } catch (const BackendError&) {
      refused = true;
    }
    require(refused, "a message longer than the buffer is a BackendError");
    finish(t, *send);
    finish(t, *send_after);
    finish(t, *after);
    require(in_after == pattern(previous_of(t), t.rank(), 2, 50), "the next message is whole");
  }
}

// A receive given up on stays posted: it takes its message, perhaps to nowhere, and later ones go to later receives.
inline void survives_an_abandoned_receive(Transport& t) {
  Bytes memory(100);  // complete when the second message has come, so it need not outlive this function
  static_cast<void>(t.receive(previous_of(t), 21, memory));
  const Bytes first = pattern(t.rank(), next_of(t), 1, 100);
  const Bytes second = pattern(t.rank(), next_of(t), 2, 100);
  Bytes in(100);
  const auto send_first = t.send(next_of(t), 21, first);
  const auto send_second = t.send(next_of(t), 21, second);
  const auto receive = t.receive(previous_of(t), 21, in);
  finish(t, *receive);
  finish(t, *send_first);
  finish(t, *send_second);
  require(in == pattern(previous_of(t), t.rank(), 2, 100), "the second message is for the second receive");
}

// With nothing to wait for, a wait ends by its limit, or at once after wake().
inline void waits_and_wakes(Transport& t) {
  using Clock = std::chrono::steady_clock;
  t.wait_for_activity(std::chrono::microseconds(0));
  t.wake();
  const auto begin = Clock::now();
  t.wait_for_activity(std::chrono::seconds(50));
  require(Clock::now() - begin < std::chrono::seconds(40), "wake() before a wait ends it");
}

struct TransportCase {
  const char* name;
  std::function<void(Transport&)> run;
};

inline std::vector<TransportCase> transport_cases() {
  return {{"keeps_order_within_a_tag", keeps_order_within_a_tag},
          {"matches_tags_out_of_order", matches_tags_out_of_order},
          {"stores_large_unexpected_messages", stores_large_unexpected_messages},
          {"carries_every_size", carries_every_size},
          {"moves_both_directions_at_once", moves_both_directions_at_once},
          {"holds_many_in_flight", holds_many_in_flight},
          {"refuses_a_message_that_does_not_fit", refuses_a_message_that_does_not_fit},
          {"survives_an_abandoned_receive", survives_an_abandoned_receive},
          {"waits_and_wakes", waits_and_wakes}};
}

}  // namespace kolo::test
