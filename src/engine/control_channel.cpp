#include "engine/control_channel.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "engine/codec.h"
#include "kolo/error.h"

namespace kolo::engine {
namespace {

constexpr std::size_t kFrameBytes = 4096;
constexpr std::size_t kHeaderBytes = sizeof(std::uint32_t);
constexpr std::size_t kLongestMessage = std::size_t{1} << 28;  // anything longer is damage

}  // namespace

struct ControlChannel::Inbox {
  Rank from = 0;
  std::vector<std::byte> frame = std::vector<std::byte>(kFrameBytes);
  std::vector<std::byte> message;  // while its rest is awaited
  std::unique_ptr<transport::Transfer> transfer;
  bool awaiting_rest = false;
};

struct ControlChannel::Outgoing {
  std::vector<std::byte> frame;
  std::unique_ptr<transport::Transfer> first;
  std::unique_ptr<transport::Transfer> rest;
};

ControlChannel::ControlChannel(Tree tree, transport::Transport& transport, transport::Tag tag,
                               telemetry::Counters& counters)
    : tree_(tree), transport_(transport), tag_(tag), counters_(counters) {
  for (const Rank neighbour : tree.neighbours()) {
    inboxes_.push_back(std::make_unique<Inbox>());
    inboxes_.back()->from = neighbour;
    expect_next(*inboxes_.back());
  }
}

ControlChannel::~ControlChannel() = default;

void ControlChannel::expect_next(Inbox& inbox) {
  inbox.awaiting_rest = false;
  inbox.transfer = transport_.receive(inbox.from, tag_, inbox.frame);
}

std::optional<Envelope> ControlChannel::poll(Inbox& inbox) {
  if (!inbox.transfer->test()) return std::nullopt;
  if (!inbox.awaiting_rest) {
    std::uint32_t length = 0;
    std::memcpy(&length, inbox.frame.data(), kHeaderBytes);
    if (length > kLongestMessage) {
      throw BackendError("malformed control message from rank " + std::to_string(inbox.from) + ": length " +
                         std::to_string(length) + ". Do all ranks run the same version of kolo?");
    }
    inbox.message.resize(length);
    const std::size_t here = std::min<std::size_t>(length, kFrameBytes - kHeaderBytes);
    std::memcpy(inbox.message.data(), inbox.frame.data() + kHeaderBytes, here);
    if (here < length) {
      inbox.awaiting_rest = true;
      inbox.transfer = transport_.receive(inbox.from, tag_, std::span(inbox.message).subspan(here));
      if (!inbox.transfer->test()) return std::nullopt;
    }
  }
  auto envelope = decode(inbox.message);
  expect_next(inbox);
  return envelope;
}

std::optional<ControlChannel::Received> ControlChannel::receive() {
  for (auto& inbox : inboxes_) {
    if (auto envelope = poll(*inbox)) return Received{inbox->from, std::move(*envelope)};
  }
  return std::nullopt;
}

void ControlChannel::send(Rank to, const Envelope& envelope) {
  const auto message = encode(envelope);
  auto out = std::make_unique<Outgoing>();
  out->frame.resize(kHeaderBytes + message.size());
  const auto length = static_cast<std::uint32_t>(message.size());
  std::memcpy(out->frame.data(), &length, kHeaderBytes);
  std::ranges::copy(message, out->frame.begin() + kHeaderBytes);
  const std::span<const std::byte> frame(out->frame);
  const std::size_t first = std::min(frame.size(), kFrameBytes);
  out->first = transport_.send(to, tag_, frame.first(first));
  if (first < frame.size()) out->rest = transport_.send(to, tag_, frame.subspan(first));
  outgoing_.push_back(std::move(out));
  counters_.control_messages.add();
  counters_.control_bytes.add(frame.size());
}

// What cannot leave any more, because its neighbour is gone, keeps nothing else from leaving.
bool ControlChannel::flush() {
  std::exception_ptr error;
  bool lost = false;
  std::erase_if(outgoing_, [&](const auto& out) {
    try {
      return out->first->test() && (!out->rest || out->rest->test());
    } catch (const PeerLostError&) {
      error = std::current_exception();
      lost = true;  // said once: it comes before what is said again and again
      return true;
    } catch (...) {
      if (!lost) error = std::current_exception();
      return false;
    }
  });
  if (error) std::rethrow_exception(error);
  return outgoing_.empty();
}

}  // namespace kolo::engine
