#pragma once
// A bucket in memory of the host: gradients are packed into it, or stay where peers can read them too (`home`); it is
// reduced in place.
#include <cstdint>
#include <span>
#include <vector>

#include "engine/host_reduction.h"

namespace kolo::engine {

struct HostBucketParts {
  const PlannedBucket* plan = nullptr;  // borrowed
  HostReductionParts reduction;
  RegisteredBuffer* home = nullptr;  // borrowed; where gradients may stay. Null: all are packed
};

class HostBucket final : public Bucket {
 public:
  // Bytes of memory that a bucket needs, which depend on whether it has a home.
  [[nodiscard]] static std::size_t memory_for(const PlannedBucket& plan, bool has_home);
  explicit HostBucket(HostBucketParts parts);

  void open(const Stamp& stamp) override;
  bool pack(std::size_t slot, const void* data, Stream ready) override;
  // `data` is a block of the home, up to a full line, and is overwritten with the result.
  bool place(std::size_t slot, std::byte* data) override;
  void clear_missing() override;
  void let_go_of_contributions() override {}  // those were copied, or are not used again before the round is over
  [[nodiscard]] const char* algorithm() override { return reduction_.algorithm(); }
  void launch(const Reduction& reduction, bool as_void) override;
  bool advance() override { return reduction_.advance(); }
  [[nodiscard]] bool moved() noexcept override { return reduction_.moved(); }
  void hand_to(Stream) override {}
  [[nodiscard]] std::span<std::byte> tensor(std::size_t slot, std::size_t bytes) override;
  [[nodiscard]] std::vector<Rank> waiting_for() const override { return reduction_.waiting_for(); }

 private:
  HostReduction reduction_;
  RegisteredBuffer* home_;
  std::vector<std::size_t> sizes_;   // bytes of each slot, padding included
  std::vector<std::size_t> begins_;  // elements
  std::vector<std::byte*> places_;   // of each slot in this round; null: packed
};

}  // namespace kolo::engine
