#pragma once
// One rank's engine over messages with a lane over NCCL, and one gradient on its device.
#include <barrier>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/memory.h"
#include "cuda/stream.h"
#include "multirank/engine/node.h"
#include "support/device/nccl_ranks.h"

namespace kolo::test {

class NcclTrainee {
 public:
  NcclTrainee(NcclRanks& ranks, std::unique_ptr<transport::Transport> end, std::chrono::milliseconds death_notice,
              CoordinatorMode mode = CoordinatorMode::automatic)
      : rank_(end->rank()),
        stream_(ranks.runtime, rank_),
        gradient_(ranks.runtime, rank_, kCount * sizeof(float)),
        node_(std::move(end), quick(mode), [&](engine::EngineParts& parts) {
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
    reducer_ = engine().make_reducer({{"a", {kCount}, {1}, DType::f32, true}}, options);
    cuda::fill_zero(*ranks.runtime, gradient_.data(), gradient_.size(), stream_.view());
  }
  ~NcclTrainee() {
    reducer_.reset();
    engine().stop();
  }
  void step() {
    reducer_->contribute(0, gradient_.data(), stream_.view());
    reducer_->finish(stream_.view());
  }
  [[nodiscard]] engine::EngineImpl& engine() { return node_.engine(); }
  [[nodiscard]] Stream stream() const { return stream_.view(); }
  // Whether the device has passed what is in stream().
  [[nodiscard]] bool is_done() const { return stream_.idle(); }

 private:
  static constexpr std::int64_t kCount = 1000;

  Rank rank_;
  cuda::OwnStream stream_;
  cuda::DeviceBuffer gradient_;
  Node node_;
  std::unique_ptr<GradientReducer> reducer_;
};

// Ranks as threads that have made one good step: `body(rank, trainee, liveness, attendance)` in each of them. What is
// known of peers is what `liveness` is told.
template <class Body>
void run_trainees(NcclRanks& ranks, int count, std::chrono::milliseconds death_notice, CoordinatorMode mode,
                  const Body& body) {
  auto ends = transport::make_inproc(count);
  std::vector<cluster::Liveness> liveness(static_cast<std::size_t>(count));
  std::barrier<> all(count);
  run_ranks(count, [&](int rank) {
    const auto own = static_cast<std::size_t>(rank);
    cuda::use_device(*ranks.runtime, rank);
    ends[own]->set_liveness(&liveness[own]);
    Attendance attendance(all);
    NcclTrainee trainee(ranks, std::move(ends[own]), death_notice, mode);
    trainee.step();
    attendance.meet();
    body(rank, trainee, liveness[own], attendance);
  });
}

}  // namespace kolo::test
