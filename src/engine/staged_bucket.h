#pragma once
// A bucket in memory of a device, reduced by the hosts: where devices have nothing to speak to each other with.
//
//   lane   launch(): [ pack ][ copy out ]                                          [ copy in ] event ---->
//   hand_to(user) host                                 \ advance(): has it come? allreduce ... /
//
// The allreduce is that of a bucket on the host, flags and all: hosts agree by it on what is void, and nothing needs a
// turn. The host looks whether the copy out has come, as nothing else would tell it; of the copy in it waits for
// nothing.
#include "engine/bucket_on_device.h"
#include "engine/host_reduction.h"

namespace kolo::engine {

struct StagedBucketParts {
  const PlannedBucket* plan = nullptr;  // borrowed
  HostReductionParts reduction;         // its memory shares no page with other memory
  device::Lane* lane = nullptr;         // borrowed; its communicator is of this rank alone
  std::chrono::milliseconds timeout{};  // of making the device's memory
};

class StagedBucket final : public BucketOnDevice {
 public:
  explicit StagedBucket(StagedBucketParts parts);

  void open(const Stamp& stamp) override;
  void launch(const Reduction& reduction, bool as_void) override;
  // Complete: the hosts have reduced it, and the copy in is enqueued; or it is void.
  bool advance() override;
  [[nodiscard]] bool moved() noexcept override { return reduction_.moved(); }
  [[nodiscard]] std::vector<Rank> waiting_for() const override;
  [[nodiscard]] const char* algorithm() override { return reduction_.algorithm(); }

 private:
  HostReduction reduction_;
  cuda::PageLock lock_;  // on the reduction's memory
  Reduction how_;
  enum class State { open, fetching, reducing, complete } state_ = State::open;
};

}  // namespace kolo::engine
