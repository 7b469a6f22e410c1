// Reduce-scatter through lanes: in step k every rank shows the k-th piece of every rank's part, and reduces its own
// column.
//
//   rank 0 shows [--|b0|c0|d0]      rank 0 reduces a0+a1+a2+a3 into its output,
//   rank 1 shows [a1|--|c1|d1]      rank 1 the b's, and so on; the inputs stay as they were
//   rank 2 shows [a2|b2|--|d2]
//   rank 3 shows [a3|b3|c3|--]      its own column a rank reads from its input
#include <algorithm>
#include <numeric>

#include "collectives/lane_operations.h"

namespace kolo::collectives {
namespace {

class LaneReduceScatter final : public LaneOperation {
 public:
  LaneReduceScatter(std::shared_ptr<Group> group, const std::shared_ptr<Lanes>& lanes,
                    const ReduceScatterOptions& options)
      : LaneOperation(std::move(group), lanes, steps_of(options)),
        options_(options),
        element_(size_of(options.dtype)),
        column_bytes_(column_bytes(options.counts.size())) {
    offsets_.resize(options.counts.size(), 0);
    std::exclusive_scan(options.counts.begin(), options.counts.end(), offsets_.begin(), std::size_t{0});
  }

 private:
  static std::size_t column_bytes(std::size_t ranks) { return kLaneBytes / ranks / kCacheLine * kCacheLine; }
  static std::size_t steps_of(const ReduceScatterOptions& options) {
    const std::size_t piece = column_bytes(options.counts.size()) / size_of(options.dtype);
    return (*std::max_element(options.counts.begin(), options.counts.end()) + piece - 1) / piece;
  }
  // Of rank r's part, in elements.
  [[nodiscard]] Range piece(std::size_t r, std::size_t step) const {
    const std::size_t count = options_.counts[r];
    const std::size_t each = column_bytes_ / element_;
    const std::size_t begin = std::min(count, step * each);
    return {begin, std::min(count, begin + each)};
  }
  [[nodiscard]] std::size_t payload_bytes(int /*rank*/, std::size_t /*step*/) const override {
    return column_bytes_ * options_.counts.size();
  }
  void fill(std::size_t step, std::byte* payload) override {
    for (std::size_t r = 0; r < options_.counts.size(); ++r) {
      const Range part = piece(r, step);
      if (part.size() == 0 || r == static_cast<std::size_t>(rank())) continue;
      show(payload + r * column_bytes_, options_.input + (offsets_[r] + part.begin) * element_, part.size() * element_);
    }
  }
  void drain(std::size_t step, std::span<const std::byte* const> payloads) override {
    const auto self = static_cast<std::size_t>(rank());
    const Range mine = piece(self, step);
    if (mine.size() == 0) return;
    std::byte* output = options_.output + mine.begin * element_;
    const Reduction reduction{options_.dtype, options_.op};
    const std::byte* own = options_.input + (offsets_[self] + mine.begin) * element_;
    reduction.run(with_own(payloads, self * column_bytes_, own), {&output, 1}, mine.size());
  }

  ReduceScatterOptions options_;
  std::size_t element_;
  std::size_t column_bytes_;
  std::vector<std::size_t> offsets_;  // of each rank's part, in elements
};

}  // namespace

std::unique_ptr<Operation> start_lane_reduce_scatter(std::shared_ptr<Group> group, const std::shared_ptr<Lanes>& lanes,
                                                     const ReduceScatterOptions& options) {
  return std::make_unique<LaneReduceScatter>(std::move(group), lanes, options);
}

}  // namespace kolo::collectives
