#include "transport/shm_peer.h"

#include <algorithm>
#include <cstring>

namespace kolo::transport {

void ShmPeer::send(std::shared_ptr<ShmSend> send) { sends_.push_back(std::move(send)); }

void ShmPeer::receive(std::shared_ptr<ShmReceive> receive) {
  const auto early = std::find_if(unexpected_.begin(), unexpected_.end(), [&](const auto& message) {
    return message->tag == receive->tag && !message->claimed;
  });
  if (early == unexpected_.end()) {
    receives_.push_back(std::move(receive));
  } else if ((*early)->whole) {
    hand_over(**early, *receive);
    unexpected_.erase(early);
  } else {
    (*early)->claimed = std::move(receive);
  }
}

ShmPeer::Moved ShmPeer::progress() {
  Moved moved;
  if (!sends_.empty()) pump_out(moved);
  if (reading_for_somebody()) pump_in(moved);
  return moved;
}

bool ShmPeer::has_work() const noexcept {
  if (!sends_.empty() && out_.has_room()) return true;
  return reading_for_somebody() && !in_.empty();
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
  while (reading_for_somebody() && !in_.empty()) {
    if (!incoming_) begin_incoming();
    const std::size_t count = in_.read(incoming_->to, incoming_->rest);
    if (incoming_->to != nullptr) incoming_->to += count;
    incoming_->rest -= count;
    freed = true;
    if (incoming_->rest == 0) end_incoming(moved);
  }
  if (freed && in_.writer_blocked()) moved.made_room = true;
}

void ShmPeer::begin_incoming() {
  const FrameHeader header = in_.begin();
  const auto length = static_cast<std::size_t>(header.length);
  incoming_.emplace();
  incoming_->rest = length;
  const auto posted =
      std::find_if(receives_.begin(), receives_.end(), [&](const auto& receive) { return receive->tag == header.tag; });
  if (posted != receives_.end()) {
    incoming_->receive = std::move(*posted);
    receives_.erase(posted);
    incoming_->receive->size = length;
    incoming_->receive->too_long = length > incoming_->receive->into.size();
    incoming_->to = incoming_->receive->too_long ? nullptr : incoming_->receive->into.data();
  } else {
    incoming_->unexpected = std::make_shared<ShmUnexpected>();
    incoming_->unexpected->tag = header.tag;
    incoming_->unexpected->data.resize(length);
    incoming_->to = incoming_->unexpected->data.data();
    unexpected_.push_back(incoming_->unexpected);
  }
}

void ShmPeer::end_incoming(Moved& moved) {
  const ShmIncoming ended = std::move(*incoming_);
  incoming_.reset();
  if (ended.receive) {
    ended.receive->done = true;
    moved.completed = true;
    return;
  }
  ShmUnexpected& message = *ended.unexpected;
  message.whole = true;
  if (!message.claimed) return;
  hand_over(message, *message.claimed);
  moved.completed = true;
  std::erase(unexpected_, ended.unexpected);
}

void ShmPeer::hand_over(const ShmUnexpected& message, ShmReceive& receive) {
  receive.size = message.data.size();
  receive.too_long = message.data.size() > receive.into.size();
  if (!receive.too_long && !message.data.empty()) {
    std::memcpy(receive.into.data(), message.data.data(), message.data.size());
  }
  receive.done = true;
}

bool ShmPeer::reading_for_somebody() const noexcept {
  if (!receives_.empty()) return true;
  return incoming_ && (incoming_->receive || incoming_->unexpected->claimed);
}

}  // namespace kolo::transport
