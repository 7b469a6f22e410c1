#pragma once
// A bucket's allreduce in memory of the host, with the bucket's flags in it: of a bucket that lies there
// (host_bucket.h), and of one that is on its way from a device and back (staged_bucket.h).
#include <memory>
#include <span>
#include <vector>

#include "engine/bucket.h"
#include "telemetry/counters.h"

namespace kolo::engine {

struct HostReductionParts {
  std::unique_ptr<Communicator> communicator;  // this bucket's own
  std::unique_ptr<RegisteredBuffer> memory;
  telemetry::Counters* counters = nullptr;
};

class HostReduction {
 public:
  // `plan` is borrowed.
  HostReduction(const PlannedBucket& plan, HostReductionParts parts);

  // Bytes of memory for a bucket that is reduced where it lies.
  [[nodiscard]] static std::size_t memory_for(const PlannedBucket& plan);
  [[nodiscard]] std::span<std::byte> data() noexcept { return parts_.memory->data().first(plan_.bytes); }

  // A new round.
  void open();
  void start(const Reduction& reduction, FlagWords flags);
  void start_segmented(const Reduction& reduction, FlagWords flags, const SegmentedBuffer& scattering);
  // True once complete; false before start().
  bool advance();
  // A literal. REQUIRES: started once.
  [[nodiscard]] const char* algorithm();
  [[nodiscard]] bool moved() noexcept { return parts_.communicator->made_progress(); }
  [[nodiscard]] Rank rank() const noexcept { return parts_.communicator->rank(); }
  [[nodiscard]] telemetry::Counters& counters() noexcept { return *parts_.counters; }
  [[nodiscard]] std::vector<Rank> waiting_for() const;

 private:
  [[nodiscard]] AllreduceOptions options(const Reduction& reduction, FlagWords flags);

  const PlannedBucket& plan_;
  HostReductionParts parts_;
  std::unique_ptr<Operation> operation_;
  bool complete_ = false;
  Reduction last_;
  const char* algorithm_ = nullptr;  // of `last_`; null: not asked for yet
};

}  // namespace kolo::engine
