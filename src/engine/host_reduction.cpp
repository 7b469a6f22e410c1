#include "engine/host_reduction.h"

#include <algorithm>

namespace kolo::engine {

HostReduction::HostReduction(const PlannedBucket& plan, HostReductionParts parts)
    : plan_(plan), parts_(std::move(parts)) {}

std::size_t HostReduction::memory_for(const PlannedBucket& plan) { return std::max<std::size_t>(plan.bytes, 64); }

void HostReduction::open() {
  operation_.reset();
  complete_ = false;
}

AllreduceOptions HostReduction::options(const Reduction& reduction, FlagWords flags) {
  AllreduceOptions options;
  options.data = data().data();
  options.count = plan_.bytes / size_of(plan_.dtype);
  options.dtype = plan_.dtype;
  options.op = reduction.op;
  options.prescale = reduction.prescale;
  options.postscale = reduction.postscale;
  options.registered = parts_.memory.get();
  options.flags = flags;
  options.algorithm = reduction.algorithm;
  return options;
}

void HostReduction::start(const Reduction& reduction, FlagWords flags) {
  parts_.counters->launches.add();
  last_ = reduction;
  operation_ = parts_.communicator->start(options(reduction, flags));
}

void HostReduction::start_segmented(const Reduction& reduction, FlagWords flags, const SegmentedBuffer& scattering) {
  parts_.counters->launches.add();
  last_ = reduction;
  operation_ = parts_.communicator->start_segmented(options(reduction, flags), scattering);
}

// The choice depends on the size and on whether flags travel.
const char* HostReduction::algorithm() {
  if (algorithm_ != nullptr) return algorithm_;
  std::uint64_t word = 0;
  return algorithm_ = name_of(parts_.communicator->explain(options(last_, {{&word, 1}, 0})).algorithm).data();
}

bool HostReduction::advance() {
  if (complete_) return true;
  if (operation_ == nullptr || !operation_->advance()) return false;
  operation_.reset();
  complete_ = true;
  return true;
}

std::vector<Rank> HostReduction::waiting_for() const {
  return operation_ == nullptr ? std::vector<Rank>{} : operation_->waiting_for();
}

}  // namespace kolo::engine
