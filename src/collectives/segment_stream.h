#pragma once
// The two ends of a stream of segments from one rank to another: messages on one tag, one after the other, several of
// them in flight, so that a link is never idle between two. Every pipelined algorithm is made of these.
#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "collectives/expected_message.h"
#include "transport/transport.h"

namespace kolo::collectives {

inline constexpr std::size_t kSegmentsInFlight = 4;  // each way

class SegmentSender {
 public:
  SegmentSender(transport::Transport& transport, Rank to, transport::Tag tag)
      : transport_(&transport), to_(to), tag_(tag) {}

  [[nodiscard]] Rank to() const noexcept { return to_; }
  [[nodiscard]] std::size_t begun() const noexcept { return begun_; }
  [[nodiscard]] std::size_t done() const noexcept { return done_; }
  [[nodiscard]] bool has_room() const noexcept { return begun_ < done_ + kSegmentsInFlight; }
  // Goes on with another rank, counting from 0. REQUIRES: all that was begun is done.
  void restart(Rank to) noexcept {
    to_ = to;
    begun_ = done_ = 0;
  }
  // REQUIRES: has_room(). The memory stays as it is until done() has counted it.
  void send(std::span<const std::byte> segment) {
    flights_[begun_ % kSegmentsInFlight] = transport_->send(to_, tag_, segment);
    ++begun_;
  }
  // Counts what has been sent since; whether that is any.
  bool reap() {
    const std::size_t before = done_;
    for (; done_ < begun_ && flights_[done_ % kSegmentsInFlight]->test(); ++done_) {
      flights_[done_ % kSegmentsInFlight].reset();
    }
    return done_ != before;
  }

 private:
  transport::Transport* transport_;
  Rank to_;
  transport::Tag tag_;
  std::size_t begun_ = 0;
  std::size_t done_ = 0;
  std::array<std::unique_ptr<transport::Transfer>, kSegmentsInFlight> flights_;
};

class SegmentReceiver {
 public:
  SegmentReceiver(transport::Transport& transport, Rank from, transport::Tag tag)
      : transport_(&transport), from_(from), tag_(tag) {}

  [[nodiscard]] Rank from() const noexcept { return from_; }
  [[nodiscard]] std::size_t posted() const noexcept { return posted_; }
  [[nodiscard]] std::size_t taken() const noexcept { return taken_; }
  [[nodiscard]] bool has_room() const noexcept { return posted_ < taken_ + kSegmentsInFlight; }
  // Goes on with another rank, counting from 0. REQUIRES: all that was posted is taken.
  void restart(Rank from) noexcept {
    from_ = from;
    posted_ = taken_ = 0;
  }
  // REQUIRES: has_room(). Straight to where it belongs.
  void post(std::span<std::byte> into) {
    Flight& flight = flights_[posted_ % kSegmentsInFlight];
    flight.into = into;
    flight.transfer = transport_->receive(from_, tag_, into);
    ++posted_;
  }
  // The same into memory of its own, for what is to be combined.
  void post_aside(std::size_t bytes) {
    Flight& flight = flights_[posted_ % kSegmentsInFlight];
    if (flight.aside_bytes < bytes) {
      flight.aside = std::make_unique_for_overwrite<std::byte[]>(bytes);
      flight.aside_bytes = bytes;
    }
    post({flight.aside.get(), bytes});
  }
  // Whether the oldest segment that was posted has come, with the length that was posted (else BackendError).
  [[nodiscard]] bool has_come() {
    if (taken_ == posted_) return false;
    Flight& flight = flights_[taken_ % kSegmentsInFlight];
    if (flight.transfer != nullptr && collectives::has_come(*flight.transfer, flight.into.size(), from_)) {
      flight.transfer.reset();
    }
    return flight.transfer == nullptr;
  }
  // Where the oldest lies until take(). REQUIRES: has_come().
  [[nodiscard]] const std::byte* oldest() const noexcept { return flights_[taken_ % kSegmentsInFlight].into.data(); }
  void take() noexcept { ++taken_; }

 private:
  struct Flight {
    std::unique_ptr<std::byte[]> aside;
    std::size_t aside_bytes = 0;
    std::span<std::byte> into;
    std::unique_ptr<transport::Transfer> transfer;  // goes before its memory
  };

  transport::Transport* transport_;
  Rank from_;
  transport::Tag tag_;
  std::size_t posted_ = 0;
  std::size_t taken_ = 0;
  std::array<Flight, kSegmentsInFlight> flights_;
};

}  // namespace kolo::collectives
