#pragma once
// A bucket in memory of a device, whoever reduces it: what comes in and how the results are handed out.
#include "device/bucket_memory.h"
#include "engine/bucket.h"

namespace kolo::engine {

class BucketOnDevice : public Bucket {
 public:
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

 private:
  device::Lane& lane_;
  device::BucketMemory memory_;
};

}  // namespace kolo::engine
