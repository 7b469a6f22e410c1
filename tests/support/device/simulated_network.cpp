#include "support/device/simulated_network.h"

#include <utility>

#include "transport/make.h"

namespace kolo::test {
namespace {

using transport::Tag;
using transport::Transfer;

class WatchedTransfer final : public Transfer {
 public:
  WatchedTransfer(SimulatedDevice& device, const Range& range, std::uint64_t& completed)
      : device_(device), range_(range), completed_(completed) {
    device_.network_uses(range_);
  }
  void follow(std::unique_ptr<Transfer> inner) { inner_ = std::move(inner); }
  bool test() override {
    if (!inner_->test()) return false;
    if (!std::exchange(done_, true)) {
      device_.network_uses(range_);
      ++completed_;
    }
    return true;
  }
  [[nodiscard]] std::size_t size() const noexcept override { return inner_->size(); }

 private:
  SimulatedDevice& device_;
  Range range_;
  std::uint64_t& completed_;
  std::unique_ptr<Transfer> inner_;
  bool done_ = false;
};

class SimulatedNetwork final : public transport::DeviceTransport {
 public:
  SimulatedNetwork(SimulatedDevice& device, std::unique_ptr<transport::Transport> inner)
      : device_(device), inner_(std::move(inner)) {}

  [[nodiscard]] Rank rank() const noexcept override { return inner_->rank(); }
  [[nodiscard]] int size() const noexcept override { return inner_->size(); }
  [[nodiscard]] std::unique_ptr<Transfer> send(Rank to, Tag tag, std::span<const std::byte> data) override {
    auto transfer =
        std::make_unique<WatchedTransfer>(device_, Range{data.data(), data.size(), Access::read}, completed_);
    transfer->follow(inner_->send(to, tag, data));
    return transfer;
  }
  [[nodiscard]] std::unique_ptr<Transfer> receive(Rank from, Tag tag, std::span<std::byte> into) override {
    auto transfer =
        std::make_unique<WatchedTransfer>(device_, Range{into.data(), into.size(), Access::write}, completed_);
    transfer->follow(inner_->receive(from, tag, into));
    return transfer;
  }
  void wait_for_activity(std::chrono::microseconds at_most) override { inner_->wait_for_activity(at_most); }
  void wake() noexcept override { inner_->wake(); }
  [[nodiscard]] std::uint64_t completed() const noexcept override { return completed_; }
  void keep(std::shared_ptr<void> memory) override { kept_.push_back(std::move(memory)); }

 private:
  SimulatedDevice& device_;
  std::vector<std::shared_ptr<void>> kept_;  // goes last
  std::unique_ptr<transport::Transport> inner_;
  std::uint64_t completed_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<transport::DeviceTransport>> make_simulated_network(SimulatedDevice& device, int ranks) {
  std::vector<std::unique_ptr<transport::DeviceTransport>> all;
  for (auto& inner : transport::make_inproc(ranks)) {
    all.push_back(std::make_unique<SimulatedNetwork>(device, std::move(inner)));
  }
  return all;
}

}  // namespace kolo::test
