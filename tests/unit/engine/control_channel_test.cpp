#include "engine/control_channel.h"

#include <gtest/gtest.h>

#include "transport/make.h"

namespace kolo::engine {
namespace {

// The first look at each message that is sent throws, as the transport does that is told what.
class Refusing final : public transport::Transport {
 public:
  explicit Refusing(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] Rank rank() const noexcept override { return inner_->rank(); }
  [[nodiscard]] int size() const noexcept override { return inner_->size(); }
  [[nodiscard]] std::unique_ptr<transport::Transfer> send(Rank to, transport::Tag tag,
                                                          std::span<const std::byte> data) override {
    return std::make_unique<Sending>(inner_->send(to, tag, data), lost_);
  }
  [[nodiscard]] std::unique_ptr<transport::Transfer> receive(Rank from, transport::Tag tag,
                                                             std::span<std::byte> into) override {
    return inner_->receive(from, tag, into);
  }
  void wait_for_activity(std::chrono::microseconds at_most) override { inner_->wait_for_activity(at_most); }
  void wake() noexcept override { inner_->wake(); }

  bool lost_ = false;  // for ever, because the peer is

 private:
  class Sending final : public transport::Transfer {
   public:
    Sending(std::unique_ptr<Transfer> inner, const bool& lost) : inner_(std::move(inner)), lost_(lost) {}
    bool test() override {
      if (lost_) throw PeerLostError(1, "rank 1 is gone");
      if (std::exchange(refuses_, false)) throw BackendError("no memory for now");
      return inner_->test();
    }
    [[nodiscard]] std::size_t size() const noexcept override { return inner_->size(); }

   private:
    std::unique_ptr<Transfer> inner_;
    const bool& lost_;
    bool refuses_ = true;
  };

  std::unique_ptr<Transport> inner_;
};

class Channel : public testing::Test {
 protected:
  std::vector<std::unique_ptr<transport::Transport>> ends_ = transport::make_inproc(2);
  Refusing refusing_{std::move(ends_[0])};
  telemetry::Counters counters_;
  ControlChannel channel_{{0, 2}, refusing_, 0, counters_};
};

TEST_F(Channel, KeepsWhatTheTransportRefusesForNow) {
  ControlChannel other({1, 2}, *ends_[1], 0, counters_);
  Envelope envelope;
  envelope.epoch = 7;
  channel_.send(1, envelope);
  EXPECT_THROW((void)channel_.flush(), BackendError);
  EXPECT_FALSE(channel_.idle());
  EXPECT_TRUE(channel_.flush());
  const auto received = other.receive();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->envelope.epoch, 7U);
}

TEST_F(Channel, LetsGoOfWhatNobodyWillTake) {
  channel_.send(1, {});
  refusing_.lost_ = true;
  EXPECT_THROW((void)channel_.flush(), PeerLostError);
  EXPECT_TRUE(channel_.flush());
  EXPECT_TRUE(channel_.idle());
}

}  // namespace
}  // namespace kolo::engine
