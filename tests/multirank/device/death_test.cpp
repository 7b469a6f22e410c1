// NCCL notices that a peer's connection has closed before anybody has said whose process has ended. Ranks are threads,
// engines over messages; rank 2 falls silent, and a test says when it is known to be dead.
#include <gmock/gmock.h>

#include <array>
#include <barrier>
#include <thread>

#include "cuda/memory.h"
#include "multirank/engine/node.h"
#include "support/device/nccl_ranks.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 3;
constexpr std::int64_t kCount = 1000;

// One rank's engine with a lane, and one gradient on its device.
class Trainee {
 public:
  Trainee(NcclRanks& ranks, std::unique_ptr<transport::Transport> end, std::chrono::milliseconds death_notice)
      : rank_(end->rank()),
        stream_(ranks.runtime, rank_),
        gradient_(ranks.runtime, rank_, kCount * sizeof(float)),
        node_(std::move(end), quick(), [&](engine::EngineParts& parts) {
          parts.death_notice = death_notice;
          parts.make_lane = [&ranks, rank = rank_](int device) {
            device::LaneParts lane;
            lane.runtime = ranks.runtime;
            lane.device = device;
            lane.kernels = ranks.parts(rank).kernels;
            lane.communicator = nccl::make_nccl(ranks.parts(rank));
            lane.gives_turns = rank == 0;
            return std::make_unique<device::Lane>(std::move(lane));
          };
        }) {
    ReducerOptions options;
    options.device = rank_;
    reducer_ = node_.engine().make_reducer({{"a", {kCount}, {1}, DType::f32, true}}, options);
    cuda::fill_zero(*ranks.runtime, gradient_.data(), gradient_.size(), stream_.view());
  }
  ~Trainee() {
    reducer_.reset();
    node_.engine().stop();
  }
  void step() {
    reducer_->contribute(0, gradient_.data(), stream_.view());
    reducer_->finish(stream_.view());
  }

 private:
  Rank rank_;
  cuda::OwnStream stream_;
  cuda::DeviceBuffer gradient_;
  Node node_;
  std::unique_ptr<GradientReducer> reducer_;
};

// `check` gets the errors of ranks 0 and 1, after NCCL has failed on both. `found`: that rank 2 is dead, some time
// afterwards.
template <class Check>
void fail_nccl(std::chrono::milliseconds death_notice, bool found, const Check& check) {
  NcclRanks ranks(kRanks);
  auto ends = transport::make_inproc(kRanks);
  std::array<cluster::Liveness, kRanks> liveness;
  std::barrier<> all(kRanks);
  run_ranks(kRanks, [&](int rank) {
    const auto own = static_cast<std::size_t>(rank);
    cuda::use_device(*ranks.runtime, rank);
    ends[own]->set_liveness(&liveness[own]);
    Attendance attendance(all);
    Trainee trainee(ranks, std::move(ends[own]), death_notice);
    trainee.step();
    attendance.meet();
    if (rank == 0) {
      for (const int live : {0, 1}) ranks.nccl.break_rank(live, nccl::Result::remote_error, "a connection was closed");
    }
    attendance.meet();
    std::jthread news;
    if (found && rank != 2) {
      news = std::jthread([&] {
        std::this_thread::sleep_for(200ms);
        liveness[own].report_loss(2, "its process has ended");
      });
    }
    try {
      while (true) trainee.step();  // what rank 2 does is the last that it did
    } catch (const Error& error) {
      if (rank != 2) check(error);
    }
    attendance.meet();
  });
}

TEST(Death, ThatNcclNoticesFirstIsThePeersAndNotThisRanksFailure) {
  fail_nccl(30s, true, [](const Error& error) {
    const auto* lost = dynamic_cast<const PeerLostError*>(&error);
    ASSERT_NE(lost, nullptr) << error.what();
    EXPECT_EQ(lost->rank(), 2);
    EXPECT_THAT(error.what(), testing::HasSubstr("its process has ended"));
  });
}

TEST(Death, ThatNobodyFindsIsTheFailureThatItSeemedToBe) {
  for (const auto notice : {300ms, 0ms}) {
    fail_nccl(notice, false, [](const Error& error) {
      EXPECT_NE(dynamic_cast<const BackendError*>(&error), nullptr);
      EXPECT_THAT(error.what(), testing::ContainsRegex("rank [01]: NCCL.*a connection was closed"));
    });
  }
}

}  // namespace
}  // namespace kolo::test
