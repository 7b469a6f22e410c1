#pragma once
// One bucket of a frozen plan, round after round: gradients are packed into it, or stay where peers can read them too
// (`home`); it is reduced in place, and the results are read where they lie.
//
// Flag words: [0] kVoid | ...   [1] stamp   [2] ~stamp   [3...] a bit for every tensor that was contributed.
// Words are combined by OR over ranks, so stamps agree exactly when ([1] & [2]) == 0 afterwards.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/plan.h"
#include "kolo/communicator.h"
#include "telemetry/counters.h"

namespace kolo::engine {

struct BucketParts {
  const PlannedBucket* plan = nullptr;         // borrowed
  std::unique_ptr<Communicator> communicator;  // this bucket's own
  std::unique_ptr<RegisteredBuffer> memory;
  RegisteredBuffer* home = nullptr;  // borrowed; where gradients may stay. Null: all are packed
  telemetry::Counters* counters = nullptr;
};

struct Reduction {
  ReduceOp op = ReduceOp::average;
  double prescale = 1.0;
  double postscale = 1.0;
};

// pack(), place() and clear_missing() belong to the thread that contributes, until it hands the bucket over for launch;
// launch() and advance() to whoever holds the progress lock.
class Bucket {
 public:
  // Bytes of memory that a bucket needs, which depend on whether it has a home.
  [[nodiscard]] static std::size_t memory_for(const PlannedBucket& plan, bool has_home);
  explicit Bucket(BucketParts parts);

  void open(std::uint64_t stamp);
  // True when this was the last missing tensor. `slot`: position in the plan's bucket.
  bool pack(std::size_t slot, const void* data);
  // As pack(), without a copy: `data` is a block of the home, up to a full line, and is overwritten with the result.
  bool place(std::size_t slot, std::byte* data);
  // Tensors that were not contributed count as zeros.
  void clear_missing();

  void launch(const Reduction& reduction, bool as_void);
  // True once complete. Throws what the collective throws.
  bool advance();
  // Whether any of it went on since the last call.
  [[nodiscard]] bool moved() noexcept { return parts_.communicator->moved(); }
  [[nodiscard]] bool launched() const noexcept { return operation_ != nullptr || complete_; }
  [[nodiscard]] bool complete() const noexcept { return complete_; }

  // REQUIRES: complete().
  [[nodiscard]] bool voided() const noexcept;
  [[nodiscard]] bool stamps_agree() const noexcept { return (flags_[1] & flags_[2]) == 0; }
  [[nodiscard]] bool contributed(std::size_t slot) const noexcept;
  [[nodiscard]] std::span<std::byte> tensor(std::size_t slot, std::size_t bytes);
  [[nodiscard]] std::vector<Rank> waiting_for() const;

 private:
  void mark(std::size_t slot) noexcept { flags_[3 + slot / 64] |= std::uint64_t{1} << (slot % 64); }

  BucketParts parts_;
  std::vector<std::uint64_t> flags_;
  std::vector<std::size_t> sizes_;   // bytes of each slot, padding included
  std::vector<std::size_t> begins_;  // elements
  std::vector<std::byte*> places_;   // of each slot in this round; null: packed
  std::size_t missing_ = 0;
  std::unique_ptr<Operation> operation_;
  bool complete_ = false;
};

}  // namespace kolo::engine
