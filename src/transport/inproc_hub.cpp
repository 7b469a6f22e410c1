#include "transport/inproc_hub.h"

#include <algorithm>
#include <cstring>
#include <exception>

namespace kolo::transport {
namespace {

// Below this a message that comes first is copied, above it waits for its receive.
constexpr std::size_t kEagerBytes = std::size_t{64} << 10;

void finish(InprocState& state, std::size_t size) {
  state.size = size;
  state.done.store(true, std::memory_order_release);
}

// Both sides are here.
void deliver(const InprocMessage& message, const InprocReceive& receive) {
  receive.state->too_long = message.data.size() > receive.into.size();
  if (!receive.state->too_long && !message.data.empty()) {
    std::memcpy(receive.into.data(), message.data.data(), message.data.size());
  }
  finish(*receive.state, message.data.size());
  if (message.send) finish(*message.send, message.data.size());
}

}  // namespace

void InprocBell::ring() noexcept {
  const std::lock_guard lock(mutex_);
  ++count_;
  rung_.notify_all();
}

void InprocBell::wait(std::chrono::microseconds at_most) {
  std::unique_lock lock(mutex_);
  rung_.wait_for(lock, at_most, [this] { return count_ != seen_; });
  seen_ = count_;
}

InprocHub::InprocHub(int ranks)
    : size_(ranks),
      ends_(static_cast<std::size_t>(ranks)),
      mailboxes_(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks)) {}

void InprocHub::send(Rank from, Rank to, InprocMessage message) {
  {
    InprocMailbox& box = mailbox(from, to);
    const std::lock_guard lock(box.mutex);
    if (left(to)) return;
    const auto wanted = std::find_if(box.receives.begin(), box.receives.end(),
                                     [&](const InprocReceive& receive) { return receive.tag == message.tag; });
    if (wanted != box.receives.end()) {
      deliver(message, *wanted);
      box.receives.erase(wanted);
    } else {
      if (message.data.size() <= kEagerBytes) {
        message.copy.assign(message.data.begin(), message.data.end());
        message.data = message.copy;
        finish(*message.send, message.data.size());
        message.send.reset();
      }
      box.messages.push_back(std::move(message));
    }
  }
  bell(to).ring();
}

void InprocHub::receive(Rank from, Rank to, InprocReceive receive) {
  bool completed_send = false;
  {
    InprocMailbox& box = mailbox(from, to);
    const std::lock_guard lock(box.mutex);
    const auto arrived = std::find_if(box.messages.begin(), box.messages.end(),
                                      [&](const InprocMessage& message) { return message.tag == receive.tag; });
    if (arrived == box.messages.end()) {
      box.receives.push_back(std::move(receive));
    } else {
      deliver(*arrived, receive);
      completed_send = arrived->send != nullptr;
      box.messages.erase(arrived);
    }
  }
  if (completed_send) bell(from).ring();
}

void InprocHub::abandon(Rank from, Rank to, const InprocState& state) noexcept {
  InprocMailbox& box = mailbox(from, to);
  const std::lock_guard lock(box.mutex);
  for (auto& receive : box.receives) {
    if (receive.state.get() == &state) receive.into = {};
  }
  const auto message = std::find_if(box.messages.begin(), box.messages.end(),
                                    [&](const InprocMessage& kept) { return kept.send.get() == &state; });
  if (message == box.messages.end()) return;
  try {
    message->copy.assign(message->data.begin(), message->data.end());
    message->data = message->copy;
  } catch (const std::exception&) {  // no memory
    box.messages.erase(message);
  }
}

bool InprocHub::left(Rank rank) const noexcept {
  return ends_[static_cast<std::size_t>(rank)].left.load(std::memory_order_acquire);
}

void InprocHub::leave(Rank rank) noexcept {
  // From here on nobody may touch this rank's memory: its receives go, and its sends that were not copied.
  ends_[static_cast<std::size_t>(rank)].left.store(true, std::memory_order_release);
  for (Rank peer = 0; peer < size_; ++peer) {
    {
      InprocMailbox& in = mailbox(peer, rank);
      const std::lock_guard lock(in.mutex);
      in.receives.clear();
      in.messages.clear();
    }
    InprocMailbox& out = mailbox(rank, peer);
    const std::lock_guard lock(out.mutex);
    std::erase_if(out.messages, [](const InprocMessage& message) { return message.send != nullptr; });
  }
  for (Rank peer = 0; peer < size_; ++peer) bell(peer).ring();
}

}  // namespace kolo::transport
