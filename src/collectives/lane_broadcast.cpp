// Broadcast through lanes: the root shows piece after piece, everybody copies it out. The other ranks' steps carry
// nothing but their counters, which is how the root knows that a lane may be used again.
//
//   root 1:  [a|b|c|d|..] --> lane of rank 1 --> private memory of ranks 0, 2, 3
#include <cstring>

#include "collectives/lane_operations.h"

namespace kolo::collectives {
namespace {

class LaneBroadcast final : public LaneOperation {
 public:
  LaneBroadcast(std::shared_ptr<Group> group, const std::shared_ptr<Lanes>& lanes, const BroadcastOptions& options)
      : LaneOperation(std::move(group), lanes, (options.bytes + kLaneBytes - 1) / kLaneBytes), options_(options) {}

 private:
  [[nodiscard]] std::size_t payload_bytes(int r, std::size_t step) const override {
    return r == options_.root ? std::min(kLaneBytes, options_.bytes - step * kLaneBytes) : 0;
  }
  void fill(std::size_t step, std::byte* payload) override {
    if (rank() == options_.root) show(payload, options_.data + step * kLaneBytes, payload_bytes(rank(), step));
  }
  void drain(std::size_t step, std::span<const std::byte* const> payloads) override {
    if (rank() == options_.root) return;
    std::memcpy(options_.data + step * kLaneBytes, payloads[static_cast<std::size_t>(options_.root)],
                payload_bytes(options_.root, step));
  }

  BroadcastOptions options_;
};

}  // namespace

std::unique_ptr<Operation> start_lane_broadcast(std::shared_ptr<Group> group, const std::shared_ptr<Lanes>& lanes,
                                                const BroadcastOptions& options) {
  return std::make_unique<LaneBroadcast>(std::move(group), lanes, options);
}

}  // namespace kolo::collectives
