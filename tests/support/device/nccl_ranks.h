#pragma once
// Ranks as threads with a device each, and NCCL among them: all of it simulated.
#include <memory>
#include <vector>

#include "cluster/make.h"
#include "nccl/library.h"
#include "nccl/make.h"
#include "support/device/kolo_kernels.h"
#include "support/device/simulated_device.h"
#include "support/device/simulated_nccl.h"

namespace kolo::test {

class NcclRanks {
 public:
  explicit NcclRanks(int ranks, const NcclOptions& options = {})
      : ranks_(ranks),
        device({.devices = ranks, .seed = options.seed}),
        nccl(device, options),
        runtime(std::make_shared<const cuda::Runtime>(device.api())),
        library(std::make_shared<const nccl::Library>(nccl.api(), "simulated")),
        bootstraps(cluster::make_inproc_bootstrap(ranks)) {
    add_kolo_kernels(device);
  }

  [[nodiscard]] nccl::NcclParts parts(int rank) {
    nccl::NcclParts parts;
    parts.rank = rank;
    parts.size = ranks_;
    parts.host = "here";
    parts.exchange = [this, rank](const std::string& mine) {
      return bootstraps[static_cast<std::size_t>(rank)]->allgather(mine);
    };
    parts.runtime = runtime;
    parts.library = library;
    parts.device = rank;
    // Any address serves as image: the simulated device knows the kernels by their names.
    parts.kernels = std::make_shared<cuda::KernelImage>(runtime, this);
    parts.timeout = std::chrono::seconds(60);
    parts.log = telemetry::Logger(LogLevel::error);
    return parts;
  }

 private:
  int ranks_;

 public:
  SimulatedDevice device;
  SimulatedNccl nccl;
  cuda::RuntimePtr runtime;
  nccl::LibraryPtr library;
  std::vector<std::unique_ptr<cluster::Bootstrap>> bootstraps;
};

}  // namespace kolo::test
