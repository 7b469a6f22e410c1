#include "comm/probe_link.h"

#include <gmock/gmock.h>

#include <cmath>
#include <thread>

#include "kolo/error.h"
#include "support/thread_ranks.h"
#include "transport/make.h"

namespace kolo::comm {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

// Two links at once: ranks 0 and 3, and ranks 2 and 1.
TEST(ProbeLink, BothRanksGetTheSamePositiveCosts) {
  std::vector<std::vector<float>> memory(4);  // outlives the transports
  auto transports = transport::make_inproc(4);
  std::vector<LinkCosts> seen(4);
  test::run_ranks(4, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    seen[r] = probe_link(*transports[r], 3 - rank, 1000, memory[r], 60s);
  });
  for (const std::size_t rank : {0UL, 1UL}) {
    const LinkCosts& link = seen[rank];
    EXPECT_EQ(link.alpha_us, seen[3 - rank].alpha_us);
    EXPECT_EQ(link.beta_us, seen[3 - rank].beta_us);
    EXPECT_TRUE(std::isfinite(link.alpha_us) && std::isfinite(link.beta_us));
    EXPECT_GT(link.alpha_us, 0);
    EXPECT_GT(link.beta_us, 0);
  }
}

// A send takes `delay`, and kPerByte for each byte.
class SlowTransport final : public transport::Transport {
 public:
  SlowTransport(transport::Transport& inner, std::chrono::microseconds delay) : inner_(inner), delay_(delay) {}
  [[nodiscard]] Rank rank() const noexcept override { return inner_.rank(); }
  [[nodiscard]] int size() const noexcept override { return inner_.size(); }
  [[nodiscard]] std::unique_ptr<transport::Transfer> send(Rank to, transport::Tag tag,
                                                          std::span<const std::byte> data) override {
    std::this_thread::sleep_for(delay_ + data.size() * kPerByte);
    return inner_.send(to, tag, data);
  }
  [[nodiscard]] std::unique_ptr<transport::Transfer> receive(Rank from, transport::Tag tag,
                                                             std::span<std::byte> into) override {
    return inner_.receive(from, tag, into);
  }
  void wait_for_activity(std::chrono::microseconds at_most) override { inner_.wait_for_activity(at_most); }
  void wake() noexcept override { inner_.wake(); }
  static constexpr std::chrono::nanoseconds kPerByte{10};

 private:
  transport::Transport& inner_;
  std::chrono::microseconds delay_;
};

TEST(ProbeLink, CostsAreAtLeastTheDelaysOfTheLink) {
  constexpr std::chrono::microseconds kDelay = 2ms;
  std::vector<std::vector<float>> memory(2);
  auto transports = transport::make_inproc(2);
  std::vector<LinkCosts> seen(2);
  test::run_ranks(2, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    SlowTransport slow(*transports[r], kDelay);
    seen[r] = probe_link(slow, 1 - rank, 0, memory[r], 60s);
  });
  EXPECT_GE(seen[0].alpha_us, static_cast<double>(kDelay.count()));
  EXPECT_GE(seen[0].beta_us, 1e-3 * static_cast<double>(SlowTransport::kPerByte.count()));
}

TEST(ProbeLink, TimeoutNamesTheAbsentPeer) {
  std::vector<float> memory;
  auto transports = transport::make_inproc(3);
  try {
    (void)probe_link(*transports[1], 2, 0, memory, 100ms);
    FAIL() << "the probe ended without its peer";
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.missing(), ElementsAre(2));
    EXPECT_THAT(error.what(), HasSubstr("ranks 1 and 2: not complete after 100 ms"));
  }
}

TEST(ProbeLink, RejectsARankThatIsNoPeer) {
  std::vector<float> memory;
  auto transports = transport::make_inproc(2);
  EXPECT_THROW((void)probe_link(*transports[0], 0, 0, memory, 1s), UsageError);
  EXPECT_THROW((void)probe_link(*transports[0], 2, 0, memory, 1s), UsageError);
}

}  // namespace
}  // namespace kolo::comm
