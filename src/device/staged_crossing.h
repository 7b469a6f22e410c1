#pragma once
// A share between hosts in pieces through page-locked memory: they are copied out, travel as allreduces of the hosts,
// and are copied back, all at the same time (share_stage.h).
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "device/share_crossing.h"
#include "device/share_stage.h"
#include "telemetry/counters.h"

namespace kolo::device {

class StagedCrossing final : public ShareCrossing {
 public:
  // Small enough for several of them to be under way in a usual bucket, large enough for a link's full speed.
  static constexpr std::size_t kPieceBytes = std::size_t{512} << 10;
  static constexpr std::size_t kMostTravelling = 8;  // pieces on the network at a time

  // `share`: this rank's part of a bucket, perhaps of no bytes. `across`: a communicator of the bucket's own between
  // those that have it, for memory of the host; null: this rank has none. `lane` and `counters` are borrowed.
  StagedCrossing(Lane& lane, std::span<std::byte> share, DType dtype, std::unique_ptr<Communicator> across,
                 telemetry::Counters& counters);

  void begin() override;
  bool advance() override;
  void order_lane() override { stage_.order_lane(); }
  [[nodiscard]] bool moved() noexcept override { return std::exchange(moved_, false); }
  [[nodiscard]] std::vector<Rank> waiting_for() const override;

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
