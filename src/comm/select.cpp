#include "comm/select.h"

#include "collectives/lane_operations.h"
#include "kolo/error.h"

namespace kolo::comm {
namespace {

std::string reason_for(Way way, const AllreduceOptions& options, const Surroundings& surroundings) {
  const std::string ranks = std::to_string(surroundings.size) + " ranks";
  switch (way) {
    case Way::alone:
      return "a group of one rank: nothing to exchange";
    case Way::in_place:
      return ranks + " on one host, registered buffer: reduced in place, a slice per rank";
    case Way::lanes:
      return ranks + " on one host, " + (options.registered != nullptr ? "small" : "private") +
             " data: every rank reduces pieces shown in shared lanes";
    case Way::sliced_lanes:
      return ranks + " on one host, private data: pieces shown in shared lanes, a slice per rank";
    case Way::ring:
      return options.algorithm == Algorithm::ring ? "asked for" : ranks + " without shared memory: segmented ring";
  }
  return {};
}

}  // namespace

Way select_way(const AllreduceOptions& options, const Surroundings& surroundings) {
  if (options.algorithm == Algorithm::mpi) {
    throw UsageError("allreduce: algorithm mpi is another communicator's; here are automatic, direct and ring");
  }
  if (options.algorithm == Algorithm::direct && !surroundings.shared_memory && surroundings.size > 1) {
    throw UsageError("allreduce: algorithm direct needs all ranks on one host with shared memory");
  }
  if (surroundings.size == 1) return Way::alone;
  if (options.algorithm == Algorithm::ring || !surroundings.shared_memory) return Way::ring;
  const std::size_t bytes = options.count * size_of(options.dtype);
  if (options.registered != nullptr && bytes > kSmallRegisteredBytes) return Way::in_place;
  const bool small = bytes <= collectives::kLaneBytes / 8;
  return surroundings.size >= collectives::kSlicedFrom && !small ? Way::sliced_lanes : Way::lanes;
}

Selection select(const AllreduceOptions& options, const Surroundings& surroundings) {
  const Way way = select_way(options, surroundings);
  const Algorithm algorithm = way == Way::ring ? Algorithm::ring : Algorithm::direct;
  return {way, {algorithm, reason_for(way, options, surroundings)}};
}

}  // namespace kolo::comm
