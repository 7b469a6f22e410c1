#include "device/share.h"

#include <gmock/gmock.h>

#include "support/device/simulated_device.h"
#include "support/fake_communicator.h"

namespace kolo::device {
namespace {

using comm::FakeCommunicator;
using testing::ElementsAre;

// A rank of a host of three, where another host has two.
class ShareTest : public testing::TestWithParam<Rank> {
 protected:
  ShareTest() {
    LaneParts parts;
    parts.runtime = std::make_shared<const cuda::Runtime>(device_.api());
    auto inside = std::make_unique<FakeCommunicator>(comm::FakeScript{.rank = GetParam(), .size = 3});
    inside_ = inside.get();
    parts.communicator = std::move(inside);
    parts.route = Route::shares_by_devices;
    parts.shares.count = 2;
    if (GetParam() < 2) {
      auto across = std::make_unique<FakeCommunicator>(comm::FakeScript{.rank = 0, .size = 2});
      across_ = across.get();
      parts.shares.across = std::move(across);
    }
    lane_.emplace(std::move(parts));
  }

  std::vector<std::byte> bucket_;  // before what still refers to it
  test::SimulatedDevice device_;
  FakeCommunicator* inside_ = nullptr;
  FakeCommunicator* across_ = nullptr;
  std::optional<Lane> lane_;
};
INSTANTIATE_TEST_SUITE_P(Ranks, ShareTest, testing::Values(0, 1, 2));

TEST_P(ShareTest, SharesAreEqualAndCrossOnce) {
  Share share(*lane_, DType::f32, 1000);  // 500 each, and so 512
  ASSERT_EQ(share.padded_bytes(), 1024U);
  bucket_.resize(share.padded_bytes());
  const auto mine = share.of(bucket_);
  EXPECT_EQ(mine.size(), GetParam() < 2 ? 512U : 0U);
  if (GetParam() < 2) {
    EXPECT_EQ(mine.data() - bucket_.data(), GetParam() * 512);
  }
  share.gather(bucket_);
  share.across(bucket_);
  share.spread(bucket_);
  EXPECT_THAT(inside_->calls(), ElementsAre("reduce_scatter", "allgather"));
  if (across_ != nullptr) {
    EXPECT_THAT(across_->calls(), ElementsAre("allreduce 128"));
  }
}

TEST_P(ShareTest, AnEmptyBucketHasEmptyShares) {
  const Share share(*lane_, DType::f64, 0);
  EXPECT_EQ(share.padded_bytes(), 0U);
  EXPECT_TRUE(share.of(bucket_).empty());
}

}  // namespace
}  // namespace kolo::device
