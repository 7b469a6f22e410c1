#include "support/device/simulated_nccl.h"

#include <gtest/gtest.h>

#include "support/device/nccl_core.h"

namespace kolo::test {

SimulatedNccl::SimulatedNccl(SimulatedDevice& device, const NcclOptions& options)
    : core_(std::make_shared<NcclCore>(device, options)) {
  install(core_);
}

SimulatedNccl::~SimulatedNccl() {
  install(nullptr);
  const auto held = core_->device.lock();
  for (const auto& each : core_->comms) {
    if (!each->ended()) ADD_FAILURE() << "simulated NCCL: a communicator of rank " << each->rank << " was never ended";
    each->world->ranks.clear();  // they hold each other
  }
  EXPECT_EQ(core_->memory.size(), lost_) << "simulated NCCL: buffers that were not released";
}

nccl::NcclApi SimulatedNccl::api() const { return simulated_nccl_api(); }

void SimulatedNccl::break_rank(int rank, nccl::Result error, const std::string& text) {
  const auto held = core_->device.lock();
  for (const auto& each : core_->comms) {
    if (each->rank != rank || each->ended()) continue;
    each->error = error;
    each->text = text;
  }
}

void SimulatedNccl::fail(const std::string& call, nccl::Result result, int times) {
  const auto held = core_->device.lock();
  core_->failures[call] = {result, times};
}

int SimulatedNccl::calls(const std::string& call) const {
  const auto held = core_->device.lock();
  return core_->counts[call];
}

int SimulatedNccl::launched(SimulatedAlgorithm algorithm) const {
  const auto held = core_->device.lock();
  return core_->launched[algorithm];
}

int SimulatedNccl::live_communicators() const {
  const auto held = core_->device.lock();
  int sum = 0;
  for (const auto& each : core_->comms) sum += each->ended() ? 0 : 1;
  return sum;
}

int SimulatedNccl::aborted_communicators() const {
  const auto held = core_->device.lock();
  int sum = 0;
  for (const auto& each : core_->comms) sum += each->life == SimulatedComm::Life::aborted ? 1 : 0;
  return sum;
}

}  // namespace kolo::test
