#pragma once
// A bucket of a rank that is alone: there is nobody to exchange with, so gradients are neither packed nor reduced, and
// the results are what was contributed, where it lies. Nothing is enqueued, and nothing copied.
//
// A tensor that was not contributed is zeros, in memory that is made when that is first the case.
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "device/lane.h"
#include "engine/bucket.h"

namespace kolo::device {
class BucketMemory;
}

namespace kolo::engine {

class SoloBucket final : public Bucket {
 public:
  // `lane`: borrowed; null for gradients in memory of the host. `timeout`: of making memory there.
  SoloBucket(const PlannedBucket& plan, device::Lane* lane, std::chrono::milliseconds timeout);
  ~SoloBucket() override;

  // Whether a sum over one rank is what it is given.
  [[nodiscard]] static bool suits(const Reduction& reduction) noexcept {
    return reduction.prescale == 1 && reduction.postscale == 1;
  }

  void open(std::uint64_t stamp) override;
  bool pack(std::size_t slot, const void* data, Stream ready) override;
  bool place(std::size_t slot, std::byte* data) override { return pack(slot, data, {}); }
  void clear_missing() override {}
  void let_go_of_contributions() override;
  void launch(const Reduction& reduction, bool as_void) override;
  bool advance() override { return true; }
  [[nodiscard]] bool moved() noexcept override { return false; }
  // What was contributed in other streams comes before what `user` does from now on.
  void hand_to(Stream user) override;
  [[nodiscard]] std::span<std::byte> tensor(std::size_t slot, std::size_t bytes) override;
  [[nodiscard]] std::vector<Rank> waiting_for() const override { return {}; }

 private:
  void make_zeros();

  device::Lane* lane_;
  std::chrono::milliseconds timeout_;
  std::vector<std::byte*> places_;  // by slot; null: not contributed
  std::vector<Stream> streams_;     // of this round's contributions, each once
  std::vector<std::byte> zeros_;    // of the host; as long as the bucket once it is needed
  std::unique_ptr<device::BucketMemory> zeros_on_device_;
  std::optional<Stream> reader_;  // of the zeros there
};

}  // namespace kolo::engine
