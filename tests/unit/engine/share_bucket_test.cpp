// One rank's part in a bucket whose shares the hosts carry, step by step: its peers do not exist.
#include "engine/share_bucket.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "device/solo_communicator.h"
#include "device/staged_crossing.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "support/device/kolo_kernels.h"
#include "support/fake_communicator.h"

namespace kolo::engine {
namespace {

using comm::FakeCommunicator;
using comm::FakeScript;
using device::StagedCrossing;
using testing::ElementsAre;

constexpr std::size_t kPieces = 3;
constexpr std::size_t kFloats = StagedCrossing::kPieceBytes / sizeof(float);

// The only rank of its host, so that its share is the whole bucket; rank 5 of another host has it too.
class ShareBucketTest : public testing::Test {
 protected:
  ShareBucketTest() : runtime_(std::make_shared<const cuda::Runtime>(device_.api())) {
    test::add_kolo_kernels(device_);
    device::LaneParts parts;
    parts.runtime = runtime_;
    parts.kernels = std::make_shared<cuda::KernelImage>(runtime_, this);
    parts.communicator = device::make_solo(runtime_, 0);
    parts.route = device::Route::shares_by_hosts;
    parts.shares.count = 1;
    parts.shares.ranks = {0, 5};
    parts.shares.between_hosts = [this] { return std::move(made_); };
    lane_.emplace(std::move(parts));
    plan_.bytes = kPieces * StagedCrossing::kPieceBytes - 64;
    plan_.on_device = true;
    plan_.tensors.push_back({.index = 0, .offset = 0, .bytes = plan_.bytes});
    gradient_.emplace(runtime_, 0, plan_.bytes);
  }

  // `across` is what the pieces go through, where the other has the same as this rank.
  ShareBucket& make(FakeScript across) {
    across.waiting_for = {1};
    across.allreduce = [](const AllreduceOptions& options) {
      auto* const values = reinterpret_cast<float*>(options.data);
      for (std::size_t i = 0; i < options.count; ++i) values[i] *= 2;
    };
    made_ = std::make_unique<FakeCommunicator>(std::move(across));
    auto agreement = std::make_unique<FakeCommunicator>(FakeScript{.size = 2});
    across_ = static_cast<FakeCommunicator*>(made_.get());
    agreement_ = agreement.get();
    bucket_.emplace(ShareBucketParts{&plan_, std::move(agreement), &*lane_, &counters_, std::chrono::seconds(20)});
    return *bucket_;
  }
  void launch(ShareBucket& bucket) {
    const std::vector<float> ones(plan_.bytes / sizeof(float), 1.0F);
    device_.write(gradient_->data(), ones.data(), plan_.bytes);
    bucket.open({.round = 1});
    EXPECT_TRUE(bucket.pack(0, gradient_->data(), lane_->stream()));
    bucket.launch({.op = ReduceOp::average}, false);
  }
  std::vector<float> result(ShareBucket& bucket) {
    device_.drain();
    std::vector<float> found(plan_.bytes / sizeof(float));
    device_.peek(found.data(), bucket.tensor(0, plan_.bytes).data(), plan_.bytes);
    return found;
  }

  std::unique_ptr<Communicator> made_;
  test::SimulatedDevice device_;
  cuda::RuntimePtr runtime_;
  std::optional<device::Lane> lane_;
  PlannedBucket plan_;
  telemetry::Counters counters_;
  std::optional<cuda::DeviceBuffer> gradient_;
  std::optional<ShareBucket> bucket_;
  FakeCommunicator* across_ = nullptr;
  FakeCommunicator* agreement_ = nullptr;
};

TEST_F(ShareBucketTest, IsCarriedPieceByPieceBetweenTwoAgreements) {
  ShareBucket& bucket = make({});
  launch(bucket);
  for (int looks = 0; looks < 1000 && !bucket.advance(); ++looks) device_.run_some();
  ASSERT_TRUE(bucket.advance());
  EXPECT_THAT(result(bucket), testing::Each(1.0F)) << "half of two";
  const std::string whole = "allreduce " + std::to_string(kFloats);
  EXPECT_THAT(across_->calls(), ElementsAre(whole, whole, "allreduce " + std::to_string(kFloats - 16)));
  EXPECT_THAT(agreement_->calls(), ElementsAre("allreduce 0", "allreduce 0"));
  EXPECT_EQ(counters_.bytes_carried.value(), plan_.bytes);
  EXPECT_TRUE(lane_->is_turn(3)) << "two have been";
}

// Another bucket's turn comes before its second one: it is not complete, and enqueues nothing, until that is over.
TEST_F(ShareBucketTest, ItsSecondTurnWaitsForTurnsThatWereGivenBefore) {
  ShareBucket& bucket = make({});
  launch(bucket);
  EXPECT_EQ(lane_->take_turn(), 2U);
  for (int looks = 0; looks < 1000; ++looks) {
    EXPECT_FALSE(bucket.advance());
    device_.run_some();
  }
  EXPECT_EQ(across_->calls().size(), kPieces);
  EXPECT_EQ(agreement_->calls().size(), 2U);
  lane_->end_turn();
  EXPECT_TRUE(bucket.advance());
  EXPECT_THAT(result(bucket), testing::Each(1.0F));
}

TEST_F(ShareBucketTest, AnErrorOfTheNetworkInAPieceIsTheBuckets) {
  ShareBucket& bucket = make({.fail_advance = 1, .error = [] { throw PeerLostError(5, "rank 5 is lost"); }});
  launch(bucket);
  const auto to_the_end = [&] {
    for (int looks = 0; looks < 1000 && !bucket.advance(); ++looks) device_.run_some();
  };
  EXPECT_THROW(to_the_end(), PeerLostError);
  EXPECT_EQ(agreement_->calls().size(), 1U) << "no second agreement";
  device_.drain();
}

TEST_F(ShareBucketTest, SaysForWhomAPieceWaits) {
  ShareBucket& bucket = make({.never_completes = 0});
  launch(bucket);
  for (int looks = 0; looks < 1000; ++looks) {
    EXPECT_FALSE(bucket.advance());
    device_.run_some();
  }
  EXPECT_THAT(bucket.waiting_for(), ElementsAre(5));
  device_.drain();
}

TEST_F(ShareBucketTest, AVoidOneCarriesNothing) {
  ShareBucket& bucket = make({});
  bucket.open({.round = 1});
  bucket.launch({}, true);
  EXPECT_TRUE(bucket.advance());
  EXPECT_TRUE(bucket.voided());
  EXPECT_THAT(across_->calls(), ElementsAre());
  EXPECT_TRUE(lane_->is_turn(2));
}

}  // namespace
}  // namespace kolo::engine
