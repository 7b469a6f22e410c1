#pragma once
// What the allreduces that overwrite their data as they go have in common, around the moving of the data itself:
//
//   flags (dissemination, ceil(log2 p) small messages)  ->  vetoed? done  ->  data, in place  ->  done
//
// Flags go first and alone, so that a veto is known everywhere before anything has changed. An average of integers
// shorter than 64 bits travels as 64-bit integers: its partial sums would not fit.
#include <optional>
#include <vector>

#include "collectives/dissemination.h"
#include "collectives/network.h"
#include "collectives/reduction.h"
#include "collectives/scattering.h"
#include "collectives/widen.h"

namespace kolo::collectives {

// The data of one allreduce as an algorithm sees it: never empty, reduced in place.
struct AllreducePlan {
  std::byte* data = nullptr;
  std::size_t count = 0;
  Reduction reduction;
  transport::Tag tag = 0;
  std::size_t segment_bytes = 0;
  SegmentedBuffer scattering{};  // of the ring's only
};

// `Schedule` is made from (transport, plan) and has advance() and waiting_for() of an Operation.
template <class Schedule>
class FlaggedAllreduce final : public Machine {
 public:
  FlaggedAllreduce(const NetworkParts& parts, const AllreduceOptions& options, const SegmentedBuffer& scattering = {})
      : Machine(parts.group),
        tag_(parts.tag),
        segment_bytes_(parts.segment_bytes),
        options_(options),
        scattering_(scattering) {
    if (!options.flags.words.empty()) flags_.emplace(*parts.group->transport, parts.tag, options.flags.words);
  }

  [[nodiscard]] std::vector<Rank> waiting_for() const override {
    if (schedule_) return schedule_->waiting_for();
    return flags_ ? flags_->waiting_for() : std::vector<Rank>{};
  }

 private:
  bool step() override {
    if (!schedule_) {
      if (flags_ && !flags_->advance()) return false;
      if (options_.flags.vetoed() || options_.count == 0) return true;
      begin();
    }
    if (!schedule_->advance()) return false;
    if (!wide_.empty()) {
      each_run([&](const Run& run) { narrow(wide_.data() + run.begin, options_.dtype, run.count, run.data); });
    }
    return true;
  }

  template <class Call>
  void each_run(const Call& call) const {
    for (std::size_t at = 0; at < options_.count;) {
      const Run run = run_from(at, options_.count, scattering_, options_.data, size_of(options_.dtype));
      call(run);
      at += run.count;
    }
  }

  void begin() {
    AllreducePlan plan{options_.data, options_.count, reduction_of(options_), tag_, segment_bytes_, scattering_};
    if (needs_wide_sums(options_.dtype, options_.op)) {
      wide_.resize(options_.count);
      each_run([&](const Run& run) { widen(run.data, options_.dtype, run.count, wide_.data() + run.begin); });
      plan.data = reinterpret_cast<std::byte*>(wide_.data());
      plan.scattering = {};
      plan.reduction.dtype = DType::i64;
    }
    schedule_.emplace(*group().transport, plan);
  }

  transport::Tag tag_;
  std::size_t segment_bytes_;
  AllreduceOptions options_;
  SegmentedBuffer scattering_;
  std::optional<Dissemination> flags_;
  std::vector<std::int64_t> wide_;
  std::optional<Schedule> schedule_;  // goes before its memory
};

}  // namespace kolo::collectives
