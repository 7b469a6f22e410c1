#pragma once
// How far the collectives that a program calls directly can go on this rank. They are numbered in the order of the
// calls, which is the same on all ranks; a peer that has failed or left comes to none from some number on.
//
//   the caller's thread     begin() a call; check() it now and then while it waits
//   the engine's threads    limit(), lift(): what a peer will not come to; hold(), release(): a failure of this rank's
//
// Either the caller sees the limit when it begins, or limit() sees that it has begun: nobody slips through in between.
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <vector>

namespace kolo::base {

class CallLimit {
 public:
  // Called on the caller's thread, without a lock.
  struct Hooks {
    std::function<void()> listen;                         // hears what peers say
    std::function<void()> settle;                         // waits until release(); throws if that cannot be
    std::function<void(std::uint64_t failure)> overtake;  // a call began in spite of this failure; it throws now
  };
  void set_hooks(Hooks hooks) { hooks_ = std::move(hooks); }

  // The next call's number. Throws when a peer will not come to it; waits while held.
  std::uint64_t begin() {
    const std::uint64_t number = begun_.fetch_add(1);
    if (number >= limit_.load()) begin_limited(number);
    return number;
  }
  // Throws when a peer will not come to this call.
  void check(std::uint64_t number) const;
  // The same for the call that has begun last.
  void check_newest() const;
  // This call was given up before it was complete.
  void abandon(std::uint64_t number) noexcept;

  // Thread-safe, as all below. Calls from `first` on cannot complete, because of `why`, until that failure is lifted.
  // True: one of them has begun here.
  bool limit(std::uint64_t first, std::uint64_t failure, std::exception_ptr why);
  void lift(std::uint64_t failure);
  // From here on no call begins, until release(): peers are still to hear that this rank has failed.
  void hold();
  void release();
  [[nodiscard]] bool held() const;
  // How many calls this rank has begun and not given up: the others cannot wait for it in these.
  [[nodiscard]] std::uint64_t reached() const noexcept;

 private:
  static constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  struct Entry {
    std::uint64_t first;
    std::uint64_t failure;
    std::exception_ptr why;
  };
  void begin_limited(std::uint64_t number);
  [[nodiscard]] const Entry* find(std::uint64_t number) const;
  void update();

  Hooks hooks_;
  std::atomic<std::uint64_t> begun_{0};
  std::atomic<std::uint64_t> abandoned_{kNone};  // the lowest
  std::atomic<std::uint64_t> limit_{kNone};      // the lowest of what follows
  mutable std::mutex lock_;
  std::vector<Entry> entries_;       // guarded by lock_
  std::uint64_t held_from_ = kNone;  // guarded by lock_
};

}  // namespace kolo::base
