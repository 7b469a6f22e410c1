#pragma once
// Optimizer steps on a lane's device, by kolo's kernels. Not in the lane: in the streams that it is given.
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/memory.h"
#include "device/lane.h"
#include "kernels/update_launch.h"
#include "kolo/spi/engine.h"
#include "kolo/spi/optimizer_step.h"

namespace kolo::device {

// Keeps what `user` may still use until the device has passed that.
using Retire = std::function<void(std::shared_ptr<void> memory, Stream user)>;

class DeviceStepLauncher final : public StepLauncher {
 public:
  // Is used only within `lifetime`, which ends before the lane.
  DeviceStepLauncher(Lane& lane, EngineLifetime lifetime, Retire retire)
      : lane_(lane), lifetime_(std::move(lifetime)), given_up_(lane.given_up()), retire_(std::move(retire)) {}
  ~DeviceStepLauncher() override;
  DeviceStepLauncher(const DeviceStepLauncher&) = delete;
  DeviceStepLauncher& operator=(const DeviceStepLauncher&) = delete;

  [[nodiscard]] int device() const noexcept override { return lifetime_.is_over() ? -1 : lane_.device(); }
  void launch(const StepBatch& batch, const SgdTerms& terms, Stream stream) override;
  void launch(const StepBatch& batch, const AdamwTerms& terms, Stream stream) override;
  void find_nonfinite(const StepBatch& batch, float* flag, Stream stream) override;
  [[nodiscard]] std::unique_ptr<DeviceScalarFuture> read(const float* value, Stream stream) override;

 private:
  // What the device knows of a place's tensors. Updates and checks have tables of their own, with other columns, so
  // that neither has to send its addresses anew because the other was there.
  struct Table {
    std::shared_ptr<kernels::TensorTable> table;
    std::vector<std::size_t> counts;
    std::vector<void*> addresses;
    Stream user;  // of the last launch
  };
  void require_engine() const;
  [[nodiscard]] kernels::UpdateLaunch prepare(const StepBatch& batch, std::size_t columns, Stream stream);
  void fit(Table& table, const StepBatch& batch, std::size_t columns);
  void let_go(Table& table) noexcept;
  void retire(std::shared_ptr<void> memory, Stream user) noexcept;

  // Of a read: made once for each that is under way at a time, because to release page-locked memory is to wait for the
  // device.
  struct ReadMemory {
    explicit ReadMemory(const Lane& lane)
        : host(lane.runtime(), lane.device(), sizeof(float)), come(lane.runtime(), lane.device()) {}
    cuda::PinnedBuffer host;
    cuda::Event come;
  };
  class Reading;

  Lane& lane_;
  EngineLifetime lifetime_;
  std::shared_ptr<cuda::HostWord> given_up_;
  Retire retire_;
  std::vector<std::shared_ptr<ReadMemory>> spare_;
  std::size_t reads_made_ = 0;
  std::map<std::pair<std::size_t, bool>, Table> tables_;  // by place, and whether it is for checks
};

}  // namespace kolo::device
