// Uneven allgather through lanes: in step k every rank shows the k-th piece of its contribution, if it has one, and
// copies out the others'. As many steps as the longest contribution has pieces.
//
//   rank 0 [a a a]   lane: a     output of every rank: [a a a|b|c c|]
//   rank 1 [b]       lane: b
//   rank 2 [c c]     lane: c     step 0 moves the first a, b and c; step 1 the second a and c; step 2 the third a
//   rank 3 []        lane: -
#include <algorithm>
#include <cstring>
#include <numeric>

#include "collectives/lane_operations.h"

namespace kolo::collectives {
namespace {

class LaneAllgather final : public LaneOperation {
 public:
  LaneAllgather(std::shared_ptr<Group> group, const std::shared_ptr<Lanes>& lanes, const AllgatherOptions& options)
      : LaneOperation(std::move(group), lanes, steps_of(options.counts)), options_(options) {
    offsets_.resize(options.counts.size(), 0);
    std::exclusive_scan(options.counts.begin(), options.counts.end(), offsets_.begin(), std::size_t{0});
  }

 private:
  static std::size_t steps_of(std::span<const std::size_t> counts) {
    return (*std::max_element(counts.begin(), counts.end()) + kLaneBytes - 1) / kLaneBytes;
  }
  [[nodiscard]] std::size_t payload_bytes(int r, std::size_t step) const override {
    const std::size_t count = options_.counts[static_cast<std::size_t>(r)];
    return std::min(kLaneBytes, count - std::min(count, step * kLaneBytes));
  }
  void fill(std::size_t step, std::byte* payload) override {
    const std::size_t bytes = payload_bytes(rank(), step);
    if (bytes == 0) return;
    const std::byte* from = options_.input + step * kLaneBytes;
    show(payload, from, bytes);
    std::byte* own = options_.output + offsets_[static_cast<std::size_t>(rank())] + step * kLaneBytes;
    if (own != from) std::memcpy(own, from, bytes);
  }
  void drain(std::size_t step, std::span<const std::byte* const> payloads) override {
    for (int r = 0; r < size(); ++r) {
      const std::size_t bytes = payload_bytes(r, step);
      if (r == rank() || bytes == 0) continue;
      const auto index = static_cast<std::size_t>(r);
      std::memcpy(options_.output + offsets_[index] + step * kLaneBytes, payloads[index], bytes);
    }
  }

  AllgatherOptions options_;
  std::vector<std::size_t> offsets_;  // of each rank's part of the output
};

}  // namespace

std::unique_ptr<Operation> start_lane_allgather(std::shared_ptr<Group> group, const std::shared_ptr<Lanes>& lanes,
                                                const AllgatherOptions& options) {
  return std::make_unique<LaneAllgather>(std::move(group), lanes, options);
}

}  // namespace kolo::collectives
