#include "device/share.h"

#include <algorithm>

namespace kolo::device {
namespace {

constexpr std::size_t kLine = 64;  // a share begins and ends where accesses of any width may

}  // namespace

Share::Share(Lane& lane, DType dtype, std::size_t bytes)
    : lane_(lane), dtype_(dtype), shares_(std::max<std::size_t>(lane.shares().count, 1)) {
  const std::size_t each = (bytes + shares_ - 1) / shares_;
  share_bytes_ = (each + kLine - 1) / kLine * kLine;
  const auto ranks = static_cast<std::size_t>(lane.communicator().size());
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    bytes_.push_back(rank < shares_ ? share_bytes_ : 0);
    elements_.push_back(bytes_.back() / size_of(dtype));
  }
}

std::span<std::byte> Share::of(std::span<std::byte> bucket) const noexcept {
  const auto rank = static_cast<std::size_t>(lane_.communicator().rank());
  return rank < shares_ ? bucket.subspan(rank * share_bytes_, share_bytes_) : bucket.last(0);
}

void Share::gather(std::span<std::byte> bucket) {
  ReduceScatterOptions options;
  options.input = bucket.data();
  options.counts = elements_;
  options.output = of(bucket).data();
  options.dtype = dtype_;
  options.op = ReduceOp::sum;
  options.stream = lane_.stream();
  lane_.keep(lane_.communicator().start(options));
}

void Share::across(std::span<std::byte> bucket) {
  if (lane_.shares().across == nullptr) return;  // this rank has no share
  AllreduceOptions options;
  options.data = of(bucket).data();
  options.count = share_bytes_ / size_of(dtype_);
  options.dtype = dtype_;
  options.op = ReduceOp::sum;
  options.stream = lane_.stream();
  lane_.keep(lane_.shares().across->start(options));
}

void Share::spread(std::span<std::byte> bucket) {
  AllgatherOptions options;
  options.input = of(bucket).data();
  options.counts = bytes_;
  options.output = bucket.data();
  options.stream = lane_.stream();
  lane_.keep(lane_.communicator().start(options));
}

}  // namespace kolo::device
