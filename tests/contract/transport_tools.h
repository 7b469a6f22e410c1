#pragma once
// What the transport contract is written with: data that tells messages apart, and waits that end.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "transport/transport.h"

namespace kolo::test {

using transport::Tag;
using transport::Transfer;
using transport::Transport;
using Bytes = std::vector<std::byte>;

inline void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("does not hold: " + what);
}

// Different for every sender, receiver, number and position.
inline Bytes pattern(Rank from, Rank to, int number, std::size_t size) {
  Bytes bytes(size);
  std::uint64_t state = 2654435761U * static_cast<std::uint64_t>(1 + from * 64 + to * 4096 + number);
  for (std::size_t at = 0; at < size; at += sizeof(std::uint32_t)) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const auto word = static_cast<std::uint32_t>(state >> 32);
    std::memcpy(bytes.data() + at, &word, std::min(sizeof word, size - at));
  }
  return bytes;
}

// Tests until complete; sleeps on the transport in between.
inline void finish(Transport& transport, Transfer& transfer, const std::string& what = "transfer") {
  const base::Deadline deadline(std::chrono::seconds(60));
  while (!transfer.test()) {
    if (deadline.passed())
      throw std::runtime_error(what + " at rank " + std::to_string(transport.rank()) + " timed out");
    transport.wait_for_activity(std::chrono::milliseconds(200));
  }
}

inline Rank next_of(const Transport& t) { return (t.rank() + 1) % t.size(); }
inline Rank previous_of(const Transport& t) { return (t.rank() + t.size() - 1) % t.size(); }

// Nobody goes on before all have come; leaves no message behind.
inline void meet(Transport& t) {
  for (int distance = 1; distance < t.size(); distance *= 2) {
    const Rank to = (t.rank() + distance) % t.size();
    const Rank from = (t.rank() + t.size() - distance) % t.size();
    const auto in = t.receive(from, 900, {});
    const auto out = t.send(to, 900, {});
    finish(t, *out, "meeting");
    finish(t, *in, "meeting");
  }
}

}  // namespace kolo::test
