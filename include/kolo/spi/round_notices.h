#pragma once
// Bits that ranks combine by OR in each round of gradients, without a further message.
//
//   engine.notices().raise(kStop);                 // on one rank, at any time, also in a signal handler
//   optimizer.step();                              // all ranks
//   const auto bits = engine.notices().take();     // the same value on all ranks
#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>

#include "kolo/detail/export.h"

namespace KOLO_EXPORT kolo {

// Bits of one Engine, for one user at a time: claim(). raise() and lower() are thread-safe and async-signal-safe;
// the other functions belong to the thread that closes the rounds.
class RoundNotices {
 public:
  using Bits = std::uint32_t;

  // False if there is a user already. Until release(), only rounds that the calling thread closes count.
  [[nodiscard]] bool claim() noexcept {
    std::thread::id none;
    return owner_.compare_exchange_strong(none, std::this_thread::get_id());
  }
  void release() noexcept {
    raised_.store(0);
    owner_.store({});
  }

  // Until lower(), each round of this rank carries `bits`. The round that is being closed may already be without them.
  void raise(Bits bits) noexcept { raised_.fetch_or(bits); }
  void lower(Bits bits) noexcept { raised_.fetch_and(~bits); }

  // The OR of the bits of all ranks in the rounds that have succeeded since the last call; empty if there was none. If
  // all ranks call it after the same round, all get the same value.
  [[nodiscard]] std::optional<Bits> take() noexcept {
    const std::uint64_t word = received_.exchange(0);
    if ((word & kRound) == 0) return std::nullopt;
    return static_cast<Bits>(word);
  }

  // The number of rounds that have counted so far: equal on all ranks after the same round.
  [[nodiscard]] std::uint64_t rounds() const noexcept { return rounds_.load(); }

  // For reducers: what a round carries, and what it brought.
  [[nodiscard]] Bits raised() const noexcept { return raised_.load(); }
  void receive(Bits bits) noexcept {
    const std::thread::id owner = owner_.load();
    if (owner != std::thread::id() && owner != std::this_thread::get_id()) return;
    rounds_.fetch_add(1);
    received_.fetch_or(kRound | bits);
  }

 private:
  static constexpr std::uint64_t kRound = std::uint64_t{1} << 32;  // there was a round

  std::atomic<std::thread::id> owner_{};
  std::atomic<std::uint64_t> rounds_{0};
  std::atomic<Bits> raised_{0};
  std::atomic<std::uint64_t> received_{0};
  static_assert(std::atomic<Bits>::is_always_lock_free);
};

}  // namespace kolo
