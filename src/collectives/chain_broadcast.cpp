// Pipelined chain broadcast: segments travel from the root along the ring, and stop before they reach it again.
//
//   root 2:   2 --c b a--> 3 --b a--> 0 --a--> 1        after p-1 segments' time every link is busy
//
// N bytes cross each link once: time is N/B + (p-2) segments, whatever the number of ranks.
#include <algorithm>

#include "collectives/expected_message.h"
#include "collectives/ring.h"

namespace kolo::collectives {
namespace {

class ChainBroadcast final : public Machine {
 public:
  ChainBroadcast(const RingParts& parts, const BroadcastOptions& options)
      : Machine(parts.group),
        transport_(*parts.group->transport),
        options_(options),
        tag_(parts.tag),
        segment_bytes_(parts.segment_bytes),
        segments_((options.bytes + segment_bytes_ - 1) / segment_bytes_),
        position_((transport_.rank() + transport_.size() - options.root) % transport_.size()) {}

  [[nodiscard]] std::vector<Rank> waiting_for() const override {
    if (position_ != 0 && received_ < segments_) return {left()};
    if (sent_ < sending_) return {right()};
    return {};
  }

 private:
  static constexpr std::size_t kWindow = 4;
  using Transfers = std::vector<std::unique_ptr<transport::Transfer>>;

  [[nodiscard]] Rank left() const { return (transport_.rank() + transport_.size() - 1) % transport_.size(); }
  [[nodiscard]] Rank right() const { return (transport_.rank() + 1) % transport_.size(); }
  [[nodiscard]] std::span<std::byte> segment(std::size_t index) const {
    const std::size_t begin = index * segment_bytes_;
    return {options_.data + begin, std::min(segment_bytes_, options_.bytes - begin)};
  }

  [[nodiscard]] bool received(std::size_t index) {
    return has_come(*receives_[index % kWindow], segment(index).size(), left());
  }

  bool step() override {
    const bool sends = position_ + 1 < transport_.size();
    bool moved = true;
    while (moved) {
      moved = false;
      if (position_ == 0) received_ = segments_;
      for (; posted_ < segments_ && position_ != 0 && posted_ < received_ + kWindow; ++posted_, moved = true) {
        receives_[posted_ % kWindow] = transport_.receive(left(), tag_, segment(posted_));
      }
      for (; received_ < posted_ && received(received_); moved = true) {
        receives_[received_++ % kWindow].reset();
      }
      for (; sends && sending_ < received_ && sending_ < sent_ + kWindow; ++sending_, moved = true) {
        sends_[sending_ % kWindow] = transport_.send(right(), tag_, segment(sending_));
      }
      for (; sent_ < sending_ && sends_[sent_ % kWindow]->test(); moved = true) sends_[sent_++ % kWindow].reset();
    }
    return received_ == segments_ && (!sends || sent_ == segments_);
  }

  transport::Transport& transport_;
  BroadcastOptions options_;
  transport::Tag tag_;
  std::size_t segment_bytes_;
  std::size_t segments_;
  int position_;  // in the chain; the root is 0
  std::size_t posted_ = 0;
  std::size_t received_ = 0;
  std::size_t sending_ = 0;
  std::size_t sent_ = 0;
  Transfers receives_{kWindow};
  Transfers sends_{kWindow};
};

}  // namespace

std::unique_ptr<Operation> start_chain_broadcast(const RingParts& parts, const BroadcastOptions& options) {
  return std::make_unique<ChainBroadcast>(parts, options);
}

}  // namespace kolo::collectives
