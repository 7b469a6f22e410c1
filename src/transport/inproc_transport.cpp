#include <string>

#include "kolo/error.h"
#include "transport/inproc_hub.h"
#include "transport/make.h"

namespace kolo::transport {
namespace {

class InprocTransfer final : public Transfer {
 public:
  // `peer` is one of the two.
  InprocTransfer(std::shared_ptr<InprocHub> hub, Rank from, Rank to, Rank peer)
      : hub_(std::move(hub)), from_(from), to_(to), peer_(peer) {}
  ~InprocTransfer() override {
    if (!done()) hub_->abandon(from_, to_, *state_);
  }
  InprocTransfer(const InprocTransfer&) = delete;
  InprocTransfer& operator=(const InprocTransfer&) = delete;
  [[nodiscard]] const std::shared_ptr<InprocState>& state() const noexcept { return state_; }

  bool test() override {
    if (!done()) {
      if (!hub_->left(peer_)) return false;
      // It may have completed this transfer and left between the two looks.
      if (!done()) throw PeerLostError(peer_, "rank " + std::to_string(peer_) + " has shut down its Context");
    }
    if (state_->too_long) {
      throw BackendError(
          "a message of " + std::to_string(state_->size) + " bytes from rank " + std::to_string(peer_) +
          " is longer than the receive buffer. Do all ranks call the same collective with equal counts?");
    }
    return true;
  }
  [[nodiscard]] std::size_t size() const noexcept override { return state_->size; }

 private:
  [[nodiscard]] bool done() const noexcept { return state_->done.load(std::memory_order_acquire); }

  std::shared_ptr<InprocHub> hub_;  // a transfer may outlive its transport
  Rank from_;
  Rank to_;
  Rank peer_;
  std::shared_ptr<InprocState> state_ = std::make_shared<InprocState>();
};

class InprocTransport final : public Transport {
 public:
  InprocTransport(std::shared_ptr<InprocHub> hub, Rank rank) : hub_(std::move(hub)), rank_(rank) {}
  ~InprocTransport() override { hub_->leave(rank_); }
  [[nodiscard]] Rank rank() const noexcept override { return rank_; }
  [[nodiscard]] int size() const noexcept override { return hub_->size(); }

  [[nodiscard]] std::unique_ptr<Transfer> send(Rank to, Tag tag, std::span<const std::byte> data) override {
    auto transfer = std::make_unique<InprocTransfer>(hub_, rank_, to, to);
    hub_->send(rank_, to, InprocMessage{tag, data, {}, transfer->state()});
    return transfer;
  }
  [[nodiscard]] std::unique_ptr<Transfer> receive(Rank from, Tag tag, std::span<std::byte> into) override {
    auto transfer = std::make_unique<InprocTransfer>(hub_, from, rank_, from);
    hub_->receive(from, rank_, InprocReceive{tag, into, transfer->state()});
    return transfer;
  }
  void wait_for_activity(std::chrono::microseconds at_most) override { hub_->bell(rank_).wait(at_most); }
  void wake() noexcept override { hub_->bell(rank_).ring(); }

 private:
  std::shared_ptr<InprocHub> hub_;  // shared by all ranks: it lives as long as any of them
  Rank rank_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_inproc(int ranks) {
  const auto hub = std::make_shared<InprocHub>(ranks);
  std::vector<std::unique_ptr<Transport>> all;
  for (Rank rank = 0; rank < ranks; ++rank) all.push_back(std::make_unique<InprocTransport>(hub, rank));
  return all;
}

}  // namespace kolo::transport
