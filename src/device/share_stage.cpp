#include "device/share_stage.h"

#include <algorithm>

namespace kolo::device {

ShareStage::ShareStage(Lane& lane, std::span<std::byte> share, std::size_t piece_bytes)
    : lane_(lane),
      share_(share),
      piece_bytes_(piece_bytes),
      host_(lane.runtime(), lane.device(), std::max<std::size_t>(share.size(), 1)),
      gathered_(lane.runtime(), lane.device()),
      back_(lane.runtime(), lane.device()) {
  const std::size_t pieces = (share.size() + piece_bytes - 1) / piece_bytes;
  for (std::size_t piece = 0; piece < pieces; ++piece) fetched_.emplace_back(lane.runtime(), lane.device());
}

std::span<std::byte> ShareStage::part(std::span<std::byte> whole, std::size_t piece) const noexcept {
  const std::size_t begin = piece * piece_bytes_;
  return whole.subspan(begin, std::min(piece_bytes_, share_.size() - begin));
}

void ShareStage::fetch() {
  const cuda::DeviceGuard guard(*lane_.runtime(), lane_.device());
  const Stream out = lane_.copies().out.view();
  gathered_.record(lane_.stream());
  cuda::wait_for(*lane_.runtime(), out, gathered_);
  for (std::size_t piece = 0; piece < pieces(); ++piece) {
    const auto from = part(share_, piece);
    cuda::copy(*lane_.runtime(), on_host(piece).data(), from.data(), from.size(), out);
    fetched_[piece].record(out);
  }
}

// The host has seen the copy out; said to the device too, the order does not hang on what a host happened to see.
void ShareStage::put(std::size_t piece) {
  const cuda::DeviceGuard guard(*lane_.runtime(), lane_.device());
  const Stream in = lane_.copies().in.view();
  const auto to = part(share_, piece);
  cuda::wait_for(*lane_.runtime(), in, fetched_[piece]);
  cuda::copy(*lane_.runtime(), to.data(), on_host(piece).data(), to.size(), in);
}

void ShareStage::order_lane() {
  const cuda::DeviceGuard guard(*lane_.runtime(), lane_.device());
  back_.record(lane_.copies().in.view());
  cuda::wait_for(*lane_.runtime(), lane_.stream(), back_);
}

}  // namespace kolo::device
