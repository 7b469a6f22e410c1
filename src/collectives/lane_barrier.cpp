// Barrier through lanes: one step without payload. Whoever has seen all counters of the step knows that all have come.
#include "collectives/lane_operations.h"

namespace kolo::collectives {
namespace {

class LaneBarrier final : public LaneOperation {
 public:
  LaneBarrier(std::shared_ptr<Group> group, const std::shared_ptr<Lanes>& lanes)
      : LaneOperation(std::move(group), lanes, 1) {}

 private:
  [[nodiscard]] std::size_t payload_bytes(int /*rank*/, std::size_t /*step*/) const override { return 0; }
  void fill(std::size_t /*step*/, std::byte* /*payload*/) override {}
  void drain(std::size_t /*step*/, std::span<const std::byte* const> /*payloads*/) override {}
};

}  // namespace

std::unique_ptr<Operation> start_lane_barrier(std::shared_ptr<Group> group, const std::shared_ptr<Lanes>& lanes) {
  return std::make_unique<LaneBarrier>(std::move(group), lanes);
}

}  // namespace kolo::collectives
