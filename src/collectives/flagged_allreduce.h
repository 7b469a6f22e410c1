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
#include "collectives/widen.h"

namespace kolo::collectives {

// The data of one allreduce as an algorithm sees it: never empty, reduced in place.
struct AllreducePlan {
  std::byte* data = nullptr;
  std::size_t count = 0;
  Reduction reduction;
  transport::Tag tag = 0;
  std::size_t segment_bytes = 0;
};

// `Schedule` is made from (transport, plan) and has advance() and waiting_for() of an Operation.
template <class Schedule>
class FlaggedAllreduce final : public Machine {
 public:
  FlaggedAllreduce(const NetworkParts& parts, const AllreduceOptions& options)
      : Machine(parts.group), tag_(parts.tag), segment_bytes_(parts.segment_bytes), options_(options) {
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
    if (!wide_.empty()) narrow(wide_.data(), options_.dtype, options_.count, options_.data);
    return true;
  }

  void begin() {
    AllreducePlan plan{options_.data, options_.count, reduction_of(options_), tag_, segment_bytes_};
    if (needs_wide_sums(options_.dtype, options_.op)) {
      wide_.resize(options_.count);
      widen(options_.data, options_.dtype, options_.count, wide_.data());
      plan.data = reinterpret_cast<std::byte*>(wide_.data());
      plan.reduction.dtype = DType::i64;
    }
    schedule_.emplace(*group().transport, plan);
  }

  transport::Tag tag_;
  std::size_t segment_bytes_;
  AllreduceOptions options_;
  std::optional<Dissemination> flags_;
  std::vector<std::int64_t> wide_;
  std::optional<Schedule> schedule_;  // goes before its memory
};

}  // namespace kolo::collectives
