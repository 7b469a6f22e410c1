#pragma once
// The way of this rank's share through the host's memory, piece by piece: what has come is on the network while later
// pieces are still being copied out and earlier ones are copied back, in streams of their own.
//
//   lane  [ pack ][ gather ]                                           [ spread ]
//                           \ event                             event /
//   out                      [ piece 0 ][ piece 1 ][ piece 2 ]       |
//   host                                 0 travels ...  1 travels ...|
//   in                                          [ piece 0 ][ piece 1 ][ piece 2 ]
#include <cstddef>
#include <span>
#include <vector>

#include "cuda/memory.h"
#include "device/lane.h"

namespace kolo::device {

class ShareStage {
 public:
  // `share` is memory of the device, perhaps of no bytes. REQUIRES: a lane with copy streams.
  ShareStage(Lane& lane, std::span<std::byte> share, std::size_t piece_bytes);

  [[nodiscard]] std::size_t pieces() const noexcept { return fetched_.size(); }
  // Enqueues the copies of all pieces out of the device, behind what is in the lane by now.
  void fetch();
  // Whether the host may use what has been copied out. Throws BackendError. REQUIRES: fetch().
  [[nodiscard]] bool fetched(std::size_t piece) const { return fetched_[piece].passed(); }
  [[nodiscard]] std::span<std::byte> on_host(std::size_t piece) noexcept { return part(host_.data(), piece); }
  // Enqueues the copy back; the host leaves the piece alone from now on.
  void put(std::size_t piece);
  // What is enqueued in the lane from now on comes after the copies back that are enqueued by now.
  void order_lane();

 private:
  [[nodiscard]] std::span<std::byte> part(std::span<std::byte> whole, std::size_t piece) const noexcept;

  Lane& lane_;
  std::span<std::byte> share_;
  std::size_t piece_bytes_;
  cuda::PinnedBuffer host_;
  cuda::Event gathered_;
  std::vector<cuda::Event> fetched_;  // by piece
  cuda::Event back_;
};

}  // namespace kolo::device
