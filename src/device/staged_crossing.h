#pragma once
// A share between hosts in pieces through page-locked memory: they are copied out, travel as allreduces of the hosts,
// and are copied back, all at the same time (share_stage.h).
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "device/share_stage.h"
#include "telemetry/counters.h"

namespace kolo::device {

// Externally synchronized. Each round: begin(), advance() until it returns true, order_lane(). All ranks that have the
// share do the same, in the same order.
class StagedCrossing {
 public:
  // Small enough for several of them to be under way in a usual bucket, large enough for a link's full speed.
  static constexpr std::size_t kPieceBytes = std::size_t{512} << 10;
  static constexpr std::size_t kMostTravelling = 8;  // pieces on the network at a time

  // `share`: this rank's part of a bucket, perhaps of no bytes. `across`: a communicator of the bucket's own between
  // those that have it, for memory of the host; null: this rank has none. `lane` and `counters` are borrowed.
  StagedCrossing(Lane& lane, std::span<std::byte> share, DType dtype, std::unique_ptr<Communicator> across,
                 telemetry::Counters& counters);

  // Starts behind what the lane holds by now.
  void begin();
  // True once all pieces are on their way back to the device. Throws PeerLostError, BackendError.
  bool advance();
  // Work that is enqueued in the lane from now on finds the sums. REQUIRES: advance() returned true.
  void order_lane() { stage_.order_lane(); }
  // Whether a piece moved on since the last call.
  [[nodiscard]] bool moved() noexcept { return std::exchange(moved_, false); }
  // Ranks of the world; none: this rank's own device.
  [[nodiscard]] std::vector<Rank> waiting_for() const;

 private:
  void send(std::size_t piece);

  const std::vector<Rank>& carriers_;  // across_'s ranks, in the world
  DType dtype_;
  std::unique_ptr<Communicator> across_;
  telemetry::Counters& counters_;
  ShareStage stage_;
  struct Travelling {
    std::size_t piece = 0;
    std::unique_ptr<Operation> operation;
  };
  std::deque<Travelling> travelling_;
  std::size_t sent_ = 0;      // pieces
  std::size_t returned_ = 0;  // pieces
  bool moved_ = false;
};

}  // namespace kolo::device
