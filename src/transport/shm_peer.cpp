#include "transport/shm_peer.h"

#include <utility>

namespace kolo::transport {

void ShmPeer::send(std::shared_ptr<ShmSend> send) { sends_.push_back(std::move(send)); }

ShmPeer::Moved ShmPeer::progress() {
  Moved moved;
  if (!sends_.empty()) pump_out(moved);
  if (inbox_.wanted()) pump_in(moved);
  return moved;
}

bool ShmPeer::has_work() const noexcept {
  if (!sends_.empty() && out_.has_room()) return true;
  return inbox_.wanted() && !in_.empty();
}

void ShmPeer::pump_out(Moved& moved) {
  while (!sends_.empty()) {
    ShmSend& send = *sends_.front();
    if (!send.begun) send.begun = out_.begin(send.tag, send.data.size());
    if (send.begun) {
      send.sent += out_.write(send.data.subspan(send.sent));
      moved.wrote = true;
    }
    if (!send.begun || send.sent < send.data.size()) {
      // Say so first, then look again: either the reader sees it, or we see the room it made.
      if (!blocked_) out_.set_blocked(true);
      blocked_ = true;
      if (out_.has_room()) continue;
      return;
    }
    send.done = true;
    moved.completed = true;
    sends_.pop_front();
  }
  if (blocked_) out_.set_blocked(false);
  blocked_ = false;
}

void ShmPeer::pump_in(Moved& moved) {
  bool freed = false;
  while (inbox_.wanted() && !in_.empty()) {
    if (!inbox_.reading()) {
      const FrameHeader header = in_.begin();
      inbox_.begin(header.tag, static_cast<std::size_t>(header.length));
    }
    inbox_.advance(in_.read(inbox_.to(), inbox_.rest()));
    freed = true;
    if (inbox_.rest() == 0 && inbox_.end()) moved.completed = true;
  }
  if (freed && in_.writer_blocked()) moved.made_room = true;
}

}  // namespace kolo::transport
