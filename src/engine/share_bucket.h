#pragma once
// A bucket in memory of a device, summed inside each host by the devices and between the hosts by the hosts: each of a
// host's ranks carries its share across (device/share.h, device/staged_crossing.h). Every byte crosses the network once
// for each host, and the link between device and host, or the network's card, once for each host in either direction.
//
//   host   launch() -- flags, turn --  its turn?             the share crosses      -- turn --  its turn? hand_to(user)
//   lane                               [ pack ][ gather ]                                       [ spread ]
//
// Two turns, as two collectives are enqueued between which the host has to act. Both are agreed as that of a bucket
// that devices reduce alone (device_bucket.h): flags, between the hosts. The second goes round when all ranks have
// carried their shares across, so what is enqueued behind it has come everywhere. No turn waits for a later one: what a
// bucket's second turn needs is what its first has enqueued, and that waits for nothing but enqueued work.
#include <memory>

#include "device/staged_crossing.h"
#include "engine/bucket_on_device.h"
#include "engine/turn_agreement.h"

namespace kolo::engine {

struct ShareBucketParts {
  const PlannedBucket* plan = nullptr;         // borrowed
  std::unique_ptr<Communicator> communicator;  // this bucket's own, between all ranks
  device::Lane* lane = nullptr;                // borrowed
  telemetry::Counters* counters = nullptr;
  std::chrono::milliseconds timeout{};  // of making its memory
};

class ShareBucket final : public BucketOnDevice {
 public:
  // Takes from the lane what its share crosses by: the same calls on all ranks, in the same order.
  explicit ShareBucket(ShareBucketParts parts);

  void open(const Stamp& stamp) override;
  void launch(const Reduction& reduction, bool as_void) override;
  // Complete: all is enqueued, and nothing of it waits for the host any more; or the bucket is void.
  bool advance() override;
  [[nodiscard]] bool moved() noexcept override;
  [[nodiscard]] std::vector<Rank> waiting_for() const override;
  [[nodiscard]] const char* algorithm() override { return "mixed"; }

 private:
  [[nodiscard]] std::uint64_t& first_turn() noexcept { return own_word(0); }
  void begin();
  void agree_again();

  TurnAgreement agreement_;
  device::StagedCrossing crossing_;
  double scale_ = 1;
  std::uint64_t second_turn_ = 0;
  bool moved_ = false;
  enum class State { open, launched, agreed, crossing, crossed, agreed_again, complete } state_ = State::open;
};

}  // namespace kolo::engine
