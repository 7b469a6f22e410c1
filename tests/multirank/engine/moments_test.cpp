// Failures at moments that are rare with threads: rank 0 is real, and the test sends the messages of the other ranks.
#include <gmock/gmock.h>

#include <thread>

#include "cluster/liveness.h"
#include "multirank/engine/puppet.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

// Calls `hook` when a message has arrived, before it is read.
class Hooked final : public transport::Transport {
 public:
  Hooked(std::unique_ptr<Transport> inner, const std::function<void()>& hook) : inner_(std::move(inner)), hook_(hook) {}
  [[nodiscard]] Rank rank() const noexcept override { return inner_->rank(); }
  [[nodiscard]] int size() const noexcept override { return inner_->size(); }
  [[nodiscard]] std::unique_ptr<transport::Transfer> send(Rank to, transport::Tag tag,
                                                          std::span<const std::byte> data) override {
    return inner_->send(to, tag, data);
  }
  [[nodiscard]] std::unique_ptr<transport::Transfer> receive(Rank from, transport::Tag tag,
                                                             std::span<std::byte> into) override {
    return std::make_unique<Receiving>(inner_->receive(from, tag, into), hook_);
  }
  void wait_for_activity(std::chrono::microseconds at_most) override { inner_->wait_for_activity(at_most); }
  void wake() noexcept override { inner_->wake(); }

 private:
  class Receiving final : public transport::Transfer {
   public:
    Receiving(std::unique_ptr<Transfer> inner, const std::function<void()>& hook)
        : inner_(std::move(inner)), hook_(hook) {}
    bool test() override {
      if (!inner_->test()) return false;
      hook_();
      return true;
    }
    [[nodiscard]] std::size_t size() const noexcept override { return inner_->size(); }

   private:
    std::unique_ptr<Transfer> inner_;
    const std::function<void()>& hook_;
  };

  std::unique_ptr<Transport> inner_;
  const std::function<void()>& hook_;
};

engine::Envelope failure_in_round(Rank rank, std::uint64_t round) {
  engine::Envelope envelope;
  envelope.failure = engine::Fatal{engine::FatalKind::failed, {rank}, "bad batch"};
  envelope.failure->failed_round = engine::FailedRound{0, round};
  return envelope;
}

engine::Envelope farewell(Rank rank, std::uint64_t sequence) {
  engine::Envelope envelope;
  envelope.fatal = engine::Fatal{engine::FatalKind::peer_left, {rank}, "has left", sequence, {}};
  return envelope;
}

// A thread submits while another thread reads the message of the failure.
TEST(RankFailure, EndsOperationSubmittedWhileItArrives) {
  const Watchdog watchdog("a submission while a failure arrives", 60s);
  auto ends = transport::make_inproc(2);
  std::function<void()> hook = [] {};
  Node node(std::make_unique<Hooked>(std::move(ends[0]), hook), quick(CoordinatorMode::never));
  Puppet peer(std::move(ends[1]));
  const std::vector<GradientInfo> table{{"a", {10}, {1}, DType::f32}};
  peer.verify(table, {});
  const auto reducer = node.engine().make_reducer(table, {});

  const std::vector<float> input(8, 1.0F);
  std::optional<Work> late;
  hook = [&] {
    if (late) return;
    std::thread([&] { late = node.engine().submit(allreduce("late", input, nullptr)); }).join();
  };
  peer.say(failure_in_round(peer.rank(), 0));
  ASSERT_TRUE(progress_until(node, [&] { return late.has_value(); }));
  EXPECT_THROW(late->wait_for(3s), PeerFailedError);
  // And its name is free; the round has not ended yet.
  EXPECT_THROW(node.engine().submit(allreduce("late", input, nullptr)).wait_for(3s), PeerFailedError);
}

// One rank shuts down after it has taken part; then the other rank, which has not taken part, is lost.
TEST(LostRank, EndsOperationThatWasToCompleteAfterShutdownOfPeer) {
  const Watchdog watchdog("a loss after a farewell", 60s);
  auto ends = transport::make_inproc(3);
  cluster::Liveness liveness;
  ends[0]->set_liveness(&liveness);
  Node node(std::move(ends[0]), quick(CoordinatorMode::never));
  Puppet lost(std::move(ends[1]));
  Puppet leaver(std::move(ends[2]));

  const std::vector<float> input(8, 1.0F);
  const auto request = allreduce("x", input, nullptr);
  for (auto* puppet : {&lost, &leaver}) puppet->submit("x", engine::signature_of(request));
  auto work = node.engine().submit(request);
  ASSERT_TRUE(progress_until(node, [&] { return leaver.hears_of_an_item(); }));
  leaver.say(farewell(leaver.rank(), 1));
  const auto ended = [&] {
    try {
      node.engine().submit(allreduce("y", input, nullptr));
    } catch (const PeerLostError& error) {
      return error.rank() == leaver.rank();
    } catch (const UsageError&) {  // still pending
    }
    return false;
  };
  ASSERT_TRUE(progress_until(node, ended));
  EXPECT_FALSE(work.done());
  liveness.report_loss(lost.rank(), "its process has ended");
  try {
    work.wait_for(10s);
    ADD_FAILURE() << "no error";
  } catch (const PeerLostError& error) {
    EXPECT_EQ(error.rank(), lost.rank());
  }
  EXPECT_EQ(node.engine().lost_rank(), lost.rank());
}

}  // namespace
}  // namespace kolo::test
