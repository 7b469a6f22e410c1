// A lane that goes while something is in flight on its device: the group ends first, the memory afterwards.
#include <gtest/gtest.h>

#include "device/lane.h"
#include "support/thread_ranks.h"
#include "unit/nccl/nccl_end.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

TEST(LaneEnd, EndsWhatIsInFlightBeforeItsMemoryGoes) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    NcclRanks ranks(2, {.seed = seed});
    run_ranks(2, [&](int rank) {
      nccl::NcclParts parts = ranks.parts(rank);
      parts.farewell = 20ms;
      device::LaneParts lane_parts;
      lane_parts.runtime = ranks.runtime;
      lane_parts.device = rank;
      lane_parts.kernels = parts.kernels;
      lane_parts.communicator = nccl::make_nccl(parts);
      device::Lane lane(std::move(lane_parts));
      const std::size_t sizes[] = {256};
      auto buffers = lane.communicator().allocate(sizes, 60s);
      if (rank == 1) return;  // and never sums
      AllreduceOptions options;
      options.data = buffers[0]->data().data();
      options.count = 64;
      options.registered = buffers[0].get();
      options.stream = lane.stream();
      lane.keep(lane.communicator().start(options));
      lane.retire(std::shared_ptr<RegisteredBuffer>(std::move(buffers[0])), lane.stream());
    });
    EXPECT_GE(ranks.nccl.aborted_communicators(), 1);
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

}  // namespace
}  // namespace kolo::test
