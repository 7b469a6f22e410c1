#include "support/faulty_transport.h"

#include <algorithm>
#include <random>
#include <utility>

namespace kolo::transport {
namespace {

// Without an inner transfer it never completes (`never`), or does at once.
class FaultyTransfer final : public Transfer {
 public:
  FaultyTransfer(std::unique_ptr<Transfer> inner, int hidden_tests, bool never)
      : inner_(std::move(inner)), hidden_tests_(hidden_tests), never_(never) {}
  bool test() override {
    if (never_) return false;
    const bool done = !inner_ || inner_->test();
    return done && hidden_tests_-- <= 0;
  }
  [[nodiscard]] std::size_t size() const noexcept override { return inner_ ? inner_->size() : 0; }

 private:
  std::unique_ptr<Transfer> inner_;
  int hidden_tests_;
  bool never_;
};

class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::unique_ptr<Transport> inner, const Faults& faults)
      : inner_(std::move(inner)), faults_(faults), random_(faults.seed) {}
  [[nodiscard]] Rank rank() const noexcept override { return inner_->rank(); }
  [[nodiscard]] int size() const noexcept override { return inner_->size(); }

  [[nodiscard]] std::unique_ptr<Transfer> send(Rank to, Tag tag, std::span<const std::byte> data) override {
    if (killed()) return wrap(nullptr, true);
    if (happens(faults_.drop)) return wrap(nullptr, false);
    if (happens(faults_.truncate)) data = data.first(data.size() / 2);
    return wrap(inner_->send(to, tag, data), false);
  }
  [[nodiscard]] std::unique_ptr<Transfer> receive(Rank from, Tag tag, std::span<std::byte> into) override {
    if (killed()) return wrap(nullptr, true);
    return wrap(inner_->receive(from, tag, into), false);
  }
  // Hidden completions ring no bell, so a wait must not be long.
  void wait_for_activity(std::chrono::microseconds at_most) override {
    inner_->wait_for_activity(faults_.max_delay_tests > 0 ? std::min(at_most, std::chrono::microseconds(100))
                                                          : at_most);
  }
  void check_peers() override { inner_->check_peers(); }
  void wake() noexcept override { inner_->wake(); }
  [[nodiscard]] std::uint64_t completed() const noexcept override { return inner_->completed(); }
  [[nodiscard]] Tag last_tag() const noexcept override { return inner_->last_tag(); }

 private:
  bool killed() { return ++count_ >= faults_.kill_at && faults_.kill_at != 0; }
  bool happens(double chance) { return std::uniform_real_distribution<>(0, 1)(random_) < chance; }
  std::unique_ptr<Transfer> wrap(std::unique_ptr<Transfer> inner, bool never) {
    const int hidden = std::uniform_int_distribution<>(0, faults_.max_delay_tests)(random_);
    return std::make_unique<FaultyTransfer>(std::move(inner), hidden, never);
  }

  std::unique_ptr<Transport> inner_;
  Faults faults_;
  std::mt19937_64 random_;
  std::uint64_t count_ = 0;
};

}  // namespace

std::unique_ptr<Transport> make_faulty(std::unique_ptr<Transport> inner, const Faults& faults) {
  return std::make_unique<FaultyTransport>(std::move(inner), faults);
}

}  // namespace kolo::transport
