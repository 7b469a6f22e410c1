// Pipelined chain broadcast: segments travel from the root along the ring, and stop before they reach it again.
//
//   root 2:   2 --c b a--> 3 --b a--> 0 --a--> 1        after p-1 segments' time every link is busy
//
// N bytes cross each link once: time is N/B + (p-2) segments, whatever the number of ranks.
#include <algorithm>
#include <optional>

#include "collectives/network.h"
#include "collectives/segment_stream.h"

namespace kolo::collectives {
namespace {

class ChainBroadcast final : public Machine {
 public:
  ChainBroadcast(const NetworkParts& parts, const BroadcastOptions& options)
      : Machine(parts.group),
        options_(options),
        segment_bytes_(parts.segment_bytes),
        segments_((options.bytes + segment_bytes_ - 1) / segment_bytes_) {
    transport::Transport& transport = *parts.group->transport;
    const int size = transport.size();
    const int position = (transport.rank() + size - options.root) % size;
    if (position != 0) in_.emplace(transport, (transport.rank() + size - 1) % size, parts.tag);
    if (position + 1 != size) out_.emplace(transport, (transport.rank() + 1) % size, parts.tag);
  }

  [[nodiscard]] std::vector<Rank> waiting_for() const override {
    if (here() < segments_) return {in_->from()};
    if (out_ && out_->done() < segments_) return {out_->to()};
    return {};
  }

 private:
  [[nodiscard]] std::span<std::byte> segment(std::size_t index) const {
    const std::size_t begin = index * segment_bytes_;
    return {options_.data + begin, std::min(segment_bytes_, options_.bytes - begin)};
  }
  [[nodiscard]] std::size_t here() const { return in_ ? in_->taken() : segments_; }

  bool step() override {
    for (bool moved = true; moved;) {
      moved = false;
      for (; in_ && in_->posted() < segments_ && in_->has_room(); moved = true) in_->post(segment(in_->posted()));
      for (; in_ && in_->has_come(); moved = true) in_->take();
      if (!out_) continue;
      moved |= out_->reap();
      for (; out_->begun() < here() && out_->has_room(); moved = true) out_->send(segment(out_->begun()));
    }
    return here() == segments_ && (!out_ || out_->done() == segments_);
  }

  BroadcastOptions options_;
  std::size_t segment_bytes_;
  std::size_t segments_;
  std::optional<SegmentReceiver> in_;  // not at the root
  std::optional<SegmentSender> out_;   // not at the end
};

}  // namespace

std::unique_ptr<Operation> start_chain_broadcast(const NetworkParts& parts, const BroadcastOptions& options) {
  return std::make_unique<ChainBroadcast>(parts, options);
}

}  // namespace kolo::collectives
