#pragma once
// A bucket in memory of a device, reduced by the devices. The flags travel between the hosts, ahead of the data: an
// allreduce of nothing but flags, in the host's memory. When it is complete all ranks have handed the bucket over, and
// none will stay away from the collective on the device, which could not be called back; a bucket that is void never
// gets there.
//
//   host     launch()   --- flags, and rank 0's turn ---   advance(): its turn? enqueue      hand_to(user)
//   lane                                                   [ pack ][ allreduce ] event ---->  user's stream waits
//
// One word more than the others have: rank 0's turn on the lane, 0 from everybody else, so that the OR is the turn
// (turn_agreement.h). Turns end in the order in which they are given: what all ranks enqueue has one order, whatever
// order the flags arrive in, and however many reducers share the device.
#include <memory>

#include "engine/bucket_on_device.h"
#include "engine/turn_agreement.h"

namespace kolo::engine {

struct DeviceBucketParts {
  const PlannedBucket* plan = nullptr;         // borrowed
  std::unique_ptr<Communicator> communicator;  // this bucket's own, between the hosts
  device::Lane* lane = nullptr;                // borrowed
  telemetry::Counters* counters = nullptr;
  std::chrono::milliseconds timeout{};  // of making its memory
};

class DeviceBucket final : public BucketOnDevice {
 public:
  explicit DeviceBucket(DeviceBucketParts parts);

  void open(const Stamp& stamp) override;
  void launch(const Reduction& reduction, bool as_void) override;
  // Complete: everything is enqueued, or the bucket is void.
  bool advance() override;
  [[nodiscard]] bool moved() noexcept override { return agreement_.moved(); }
  [[nodiscard]] std::vector<Rank> waiting_for() const override { return agreement_.waiting_for(); }
  [[nodiscard]] const char* algorithm() override;

 private:
  [[nodiscard]] std::uint64_t& turn() noexcept { return own_word(0); }

  TurnAgreement agreement_;
  double scale_ = 1;
  enum class State { open, launched, agreed, complete } state_ = State::open;
};

}  // namespace kolo::engine
