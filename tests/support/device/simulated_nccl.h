#pragma once
// NCCL for ranks that are threads of a test, on simulated devices.
//
//   SimulatedDevice device({.devices = 2, .seed = seed});
//   SimulatedNccl nccl(device, {.seed = seed});
//   const auto library = std::make_shared<const nccl::Library>(nccl.api(), "simulated");
//
// A collective is an operation in each rank's stream, which can run when those of all ranks have arrived: when nothing
// is before them. Communicators are non-blocking ones: what a group enqueues is in its stream only when async_error()
// has said so, and whoever goes on before that is found out. Noted as violations of the device: ranks whose
// collectives differ in kind, count, type, reduction, root or algorithm; a communicator in two streams without an edge;
// communicators that are used while they are not ready, after their end, or never ended; registered buffers that end
// while an operation uses them, or after their communicator is finalized or their memory released. Ranks that launch in
// different orders are a deadlock, which the device finds.
#include <cstdint>
#include <memory>
#include <string>

#include "nccl/nccl_api.h"
#include "support/device/simulated_device.h"

namespace kolo::test {

// What an allreduce goes by: NCCL_ALGO at the time when its communicator is made ("allreduce:ring", "allreduce:tree"),
// or without that the size.
enum class SimulatedAlgorithm : std::uint8_t { ring, tree };

struct NcclOptions {
  std::uint64_t seed = 1;
  int version = 22809;
  bool duplicate_devices = false;  // two ranks may be on one device
};
class NcclCore;

// One at a time in a process; ends before its device.
class SimulatedNccl {
 public:
  explicit SimulatedNccl(SimulatedDevice& device, const NcclOptions& options = {});
  // Fails the test for communicators, memory and registrations that are left.
  ~SimulatedNccl();
  SimulatedNccl(const SimulatedNccl&) = delete;
  SimulatedNccl& operator=(const SimulatedNccl&) = delete;

  [[nodiscard]] nccl::NcclApi api() const;

  // Every communicator that the rank has now has this error from now on.
  void break_rank(int rank, nccl::Result error, const std::string& text);
  // The next `times` calls of a member of the table ("all_reduce") answer this and do nothing.
  void fail(const std::string& call, nccl::Result result, int times = 1);
  [[nodiscard]] int calls(const std::string& call) const;
  // How many allreduces took it, counted once for each rank.
  [[nodiscard]] int launched(SimulatedAlgorithm algorithm) const;
  [[nodiscard]] int live_communicators() const;
  [[nodiscard]] int aborted_communicators() const;

  // So many buffers are to be left in the end, because a program has let a Context go first.
  void expect_lost_buffers(std::size_t count) noexcept { lost_ = count; }

 private:
  std::shared_ptr<NcclCore> core_;
  std::size_t lost_ = 0;
};

}  // namespace kolo::test
