#pragma once
// A bucket in memory of a device, whoever reduces it: what comes in and how the results are handed out.
#include "device/bucket_memory.h"
#include "engine/bucket.h"
#include "telemetry/recorder.h"

namespace kolo::engine {

class BucketOnDevice : public Bucket {
 public:
  // Marks its reductions from now on. `recorder` is borrowed; `track` is the bucket's in the timeline.
  void record(telemetry::Recorder& recorder, std::uint32_t track) noexcept;
  void open(const Stamp& stamp) override;
  bool pack(std::size_t slot, const void* data, Stream ready) final;
  bool place(std::size_t slot, std::byte* data) final { return pack(slot, data, lane_.stream()); }
  void clear_missing() final;
  void let_go_of_contributions() final { memory_.let_go(); }
  void hand_to(Stream user) final;
  [[nodiscard]] std::span<std::byte> tensor(std::size_t slot, std::size_t bytes) final;

 protected:
  struct Place {
    device::Lane* lane = nullptr;         // borrowed
    std::chrono::milliseconds timeout{};  // of making its memory
  };
  BucketOnDevice(const PlannedBucket& plan, const Place& place, std::size_t own_words = 0);

  [[nodiscard]] device::Lane& lane() noexcept { return lane_; }
  [[nodiscard]] device::BucketMemory& memory() noexcept { return memory_; }
  // The reduction is what is enqueued in the lane between both.
  void begin_reduction() noexcept;
  void end_reduction();

 private:
  device::Lane& lane_;
  device::BucketMemory memory_;
  telemetry::Recorder* recorder_ = nullptr;
  std::uint64_t recorded_ = 0;  // the recorder's number of this reduction; 0: none
  telemetry::TimelineEvent reduction_;
};

}  // namespace kolo::engine
