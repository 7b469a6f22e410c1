#pragma once
// A bucket of a rank that is alone: there is nobody to exchange with, so gradients are neither packed nor reduced, and
// the results are what was contributed, where it lies. Nothing is enqueued but waits, and nothing copied. What was not
// contributed is nowhere.
#include <vector>

#include "device/lane.h"
#include "engine/bucket.h"

namespace kolo::engine {

class SoloBucket final : public Bucket {
 public:
  // `lane`: borrowed; null for gradients in memory of the host.
  SoloBucket(const PlannedBucket& plan, device::Lane* lane);

  // Whether a sum over one rank is what it is given.
  [[nodiscard]] static bool suits(const ReducerOptions& options) noexcept {
    return options.contributions_stay && options.in_place_from == 0 && options.prescale == 1 && options.postscale == 1;
  }

  void open(const Stamp& stamp) override;
  bool pack(std::size_t slot, const void* data, Stream ready) override;
  bool place(std::size_t slot, std::byte* data) override { return pack(slot, data, {}); }
  void clear_missing() override {}
  void let_go_of_contributions() override;
  void launch(const Reduction& reduction, bool as_void) override;
  bool advance() override { return true; }
  [[nodiscard]] bool moved() noexcept override { return false; }
  // What was contributed in other streams comes before what `user` does from now on.
  void hand_to(Stream user) override;
  // Of what was not contributed: nothing.
  [[nodiscard]] std::span<std::byte> tensor(std::size_t slot, std::size_t bytes) override;
  [[nodiscard]] std::vector<Rank> waiting_for() const override { return {}; }

 private:
  device::Lane* lane_;
  std::vector<std::byte*> places_;  // by slot; null: not contributed
  std::vector<Stream> streams_;     // of this round's contributions, each once
};

}  // namespace kolo::engine
