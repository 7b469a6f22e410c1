#pragma once
// A share between hosts straight from and into the device's memory, by a ring (collectives/ring.h) over a network that
// takes it ("CUDA-aware" MPI): nothing of it passes through memory of the host that kolo knows of.
//
//   lane     [ pack ][ gather ]                                                [ spread ]
//                              \ event, seen by the host                      /
//   network                     [ segment ]  [ segment ]  [ segment ] ...    /
//   sums                               \ [ add ]    \ [ add ]               /
//   host                          sends what is added up, receives the next
//
// The host waits for nothing: it looks whether the device has come to the share, whether a message has come, whether a
// sum is formed, and starts what follows from that.
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/machine.h"
#include "collectives/ring.h"
#include "cuda/memory.h"
#include "device/lane.h"
#include "device/share_crossing.h"
#include "telemetry/counters.h"

namespace kolo::device {

class RingCrossing final : public ShareCrossing {
 public:
  static constexpr std::size_t kSegmentBytes = std::size_t{512} << 10;

  // `share` belongs to `owner`, which is kept where the network may still touch it. `lane` and `counters` are borrowed.
  // REQUIRES: bytes in the share.
  RingCrossing(Lane& lane, std::span<std::byte> share, std::shared_ptr<void> owner, DType dtype, const ShareWire& wire,
               telemetry::Counters& counters);
  ~RingCrossing() override;
  RingCrossing(const RingCrossing&) = delete;
  RingCrossing& operator=(const RingCrossing&) = delete;

  void begin() override;
  bool advance() override;
  void order_lane() override;
  [[nodiscard]] bool moved() noexcept override;
  [[nodiscard]] std::vector<Rank> waiting_for() const override;

 private:
  class Place;  // of the ring: the device
  [[nodiscard]] bool is_under_way() const noexcept { return ring_ && !ring_->complete(); }
  void abandon() noexcept;
  [[nodiscard]] collectives::Ring::Plan plan() const;

  Lane& lane_;
  std::span<std::byte> share_;
  std::shared_ptr<void> owner_;
  DType dtype_;
  ShareWire wire_;
  telemetry::Counters& counters_;
  collectives::Group peers_;  // to be looked after
  cuda::Event gathered_;
  cuda::Event added_;
  std::shared_ptr<Place> place_;           // kept as the owner is
  std::optional<collectives::Ring> ring_;  // none until the lane has come to it
  std::uint64_t completed_ = 0;            // of the transport, when last asked
  std::chrono::steady_clock::time_point busy_until_{};
};

}  // namespace kolo::device
