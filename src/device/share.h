#pragma once
// How the ranks of a host divide what they carry to other hosts: a bucket has as many equal shares as the smallest host
// has ranks, and rank i of every host drives share i.
//
//   host 0: ranks 0 1 2      2 shares      share 0: ranks 0 and 3      share 1: ranks 1 and 4      rank 2: none
//   host 1: ranks 3 4
//
// One bucket, where the lane's communicator reaches the ranks of a host:
//
//   gather   reduce-scatter inside the host, in place: share i of rank i is the sum over the host. Communicators for
//            memory of devices take that, where what a rank gets is its part of what it gives
//   across   allreduce of that over the ranks that have the same share: by devices, or by hosts (share_stage.h)
//   spread   allgather inside the host, in place in the same way
#include <span>
#include <vector>

#include "device/lane.h"

namespace kolo::device {

class Share {
 public:
  // For buckets of `bytes` bytes.
  Share(Lane& lane, DType dtype, std::size_t bytes);

  // What a bucket needs, so that its shares are equal: NCCL has collectives for nothing else. Zeros behind `bytes`.
  [[nodiscard]] std::size_t padded_bytes() const noexcept { return shares_ * share_bytes_; }
  // This rank's part of a bucket; empty: it has none.
  [[nodiscard]] std::span<std::byte> of(std::span<std::byte> bucket) const noexcept;
  // Each of these enqueues in the lane.
  void gather(std::span<std::byte> bucket);
  void across(std::span<std::byte> bucket);  // REQUIRES: by devices
  void spread(std::span<std::byte> bucket);

 private:
  Lane& lane_;
  DType dtype_;
  std::size_t shares_;
  std::size_t share_bytes_;
  std::vector<std::size_t> elements_;  // of each rank of this host
  std::vector<std::size_t> bytes_;     // the same in bytes
};

}  // namespace kolo::device
