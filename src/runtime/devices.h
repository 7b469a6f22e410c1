#pragma once
// Devices for gradients: what this process has for them, and a rank's lane.
#include <functional>
#include <memory>

#include "cluster/bootstrap.h"
#include "cuda/kernel.h"
#include "device/lane.h"
#include "kolo/config.h"
#include "kolo/spi/communicator.h"
#include "kolo/spi/engine.h"
#include "nccl/library.h"
#include "runtime/wires.h"
#include "telemetry/logger.h"

namespace kolo::runtime {

struct Devices {
  cuda::RuntimePtr runtime;
  std::shared_ptr<cuda::KernelImage> kernels;
  std::function<nccl::LibraryPtr()> nccl;  // asked where there are peers
};
using FindDevices = std::function<Devices()>;

// The libraries that this process has loaded, or can. Throws BackendError that says what is missing.
[[nodiscard]] Devices load_devices();

// A world, and what it talks with while its lanes are made.
struct LaneWorld {
  const Placement* placement = nullptr;  // all borrowed
  const Config* config = nullptr;
  Engine* engine = nullptr;
  const telemetry::Logger* logger = nullptr;
  const Wires* wires = nullptr;                                    // the engine's
  std::function<std::unique_ptr<Communicator>()> between_hosts{};  // see device::LaneShares
  std::function<void()> check_peers{};  // throws what has ended the group, or a PeerLostError; thread-safe
};

// Collective, once in the life of `world`. Throws the same on all ranks: see agree_on_devices() and make_group().
[[nodiscard]] std::unique_ptr<device::Lane> make_lane(const FindDevices& find, int device, const LaneWorld& world);

}  // namespace kolo::runtime
