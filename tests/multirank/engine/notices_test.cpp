// Bits that travel with rounds of gradients: kolo/spi/round_notices.h.
#include <gmock/gmock.h>

#include "kolo/error.h"
#include "multirank/engine/world.h"

namespace kolo::test {
namespace {

using Bits = RoundNotices::Bits;
constexpr Bits kHighest = Bits{1} << 31;

class RoundNoticesTest : public testing::TestWithParam<Hosts> {};
INSTANTIATE_TEST_SUITE_P(Worlds, RoundNoticesTest,
                         testing::Values(Hosts{0}, one_host(2), one_host(5), Hosts{0, 1}, Hosts{0, 0, 1, 1}));

class Rounds {
 public:
  explicit Rounds(Context& context)
      : reducer_(context.engine().make_reducer({{"a", {1000}, {1}}, {"b", {2000}, {1}}}, {})) {}
  void run() {
    reducer_->contribute(0, a_.data());
    reducer_->contribute(1, b_.data());
    reducer_->finish();
  }

 private:
  std::vector<float> a_ = std::vector<float>(1000, 1);
  std::vector<float> b_ = std::vector<float>(2000, 2);
  std::unique_ptr<GradientReducer> reducer_;
};

TEST_P(RoundNoticesTest, RanksReceiveTheOrOfAllBitsInTheNextRound) {
  run_world(GetParam(), quick(), [](Context& context) {
    Rounds rounds(context);
    auto& notices = context.engine().notices();
    const Rank last = context.size() - 1;
    for (int round = 0; round < 6; ++round) {
      const Bits bit = Bits{1} << round;
      if (context.rank() == last) notices.raise(bit | kHighest);
      if (context.rank() == 0) notices.raise(Bits{1} << 20);
      rounds.run();
      EXPECT_EQ(notices.take(), bit | kHighest | Bits{1} << 20) << "round " << round;
      notices.lower(bit);
    }
    notices.lower(~Bits{0});
    rounds.run();
    EXPECT_EQ(notices.take(), Bits{0});
  });
}

TEST_P(RoundNoticesTest, BitsOfSeveralRoundsAddUpAndWithoutARoundThereAreNone) {
  run_world(GetParam(), quick(), [](Context& context) {
    Rounds first(context);
    Rounds second(context);
    auto& notices = context.engine().notices();
    EXPECT_EQ(notices.take(), std::nullopt);
    notices.raise(1);
    first.run();
    notices.lower(1);
    if (context.rank() == 0) notices.raise(2);
    second.run();
    EXPECT_EQ(notices.take(), Bits{3});
    EXPECT_EQ(notices.take(), std::nullopt);
  });
}

TEST(RoundNotices, FailedRoundBringsNone) {
  run_world(2, quick(), [](Context& context) {
    Rounds rounds(context);
    rounds.run();
    auto& notices = context.engine().notices();
    (void)notices.take();
    notices.raise(4);
    if (context.rank() == 0) {
      EXPECT_THROW(context.run([] { throw std::runtime_error("no data"); }), std::runtime_error);
    } else {
      EXPECT_THROW(rounds.run(), PeerFailedError);
    }
    EXPECT_EQ(notices.take(), std::nullopt);
    rounds.run();
    EXPECT_EQ(notices.take(), Bits{4});
  });
}

}  // namespace
}  // namespace kolo::test
