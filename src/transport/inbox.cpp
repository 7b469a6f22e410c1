#include "transport/inbox.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kolo/error.h"

namespace kolo::transport {

void Inbox::post(std::shared_ptr<PostedReceive> receive) {
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

bool Inbox::wanted() const noexcept {
  if (!receives_.empty()) return true;
  return incoming_ && (incoming_->receive || incoming_->unexpected->claimed);
}

Inbox::Receives::const_iterator Inbox::find(Tag tag) const noexcept {
  return std::find_if(receives_.begin(), receives_.end(), [&](const auto& receive) { return receive->tag == tag; });
}

bool Inbox::expects(Tag tag) const noexcept { return find(tag) != receives_.end(); }

void Inbox::begin(Tag tag, std::size_t length) {
  incoming_.emplace();
  incoming_->rest = length;
  if (const auto posted = find(tag); posted != receives_.end()) {
    incoming_->receive = *posted;
    receives_.erase(posted);
    PostedReceive& receive = *incoming_->receive;
    receive.size = length;
    if (length <= receive.into.size()) incoming_->to = receive.into.data();
  } else {
    incoming_->unexpected = std::make_shared<Unexpected>();
    incoming_->unexpected->tag = tag;
    incoming_->unexpected->data = std::make_unique_for_overwrite<std::byte[]>(length);
    incoming_->unexpected->size = length;
    incoming_->to = incoming_->unexpected->data.get();
    early_bytes_ += length;
    unexpected_.push_back(incoming_->unexpected);
  }
}

void Inbox::advance(std::size_t count) noexcept {
  if (incoming_->to != nullptr) incoming_->to += count;
  incoming_->rest -= count;
}

bool Inbox::end() {
  const Incoming ended = std::move(*incoming_);
  incoming_.reset();
  if (ended.receive) {
    ended.receive->done = true;
    return true;
  }
  Unexpected& message = *ended.unexpected;
  message.whole = true;
  if (!message.claimed) return false;
  hand_over(message, *message.claimed);
  std::erase(unexpected_, ended.unexpected);
  return true;
}

void Inbox::hand_over(const Unexpected& message, PostedReceive& receive) {
  receive.size = message.size;
  if (message.size != 0 && receive.fits()) std::memcpy(receive.into.data(), message.data.get(), message.size);
  receive.done = true;
}

void throw_too_long(const PostedReceive& receive, const std::string& from) {
  throw BackendError("a message of " + std::to_string(receive.size) + " bytes from " + from +
                     " is longer than the receive buffer of " + std::to_string(receive.into.size()) +
                     ". Do all ranks call the same collective with equal counts?");
}

}  // namespace kolo::transport
