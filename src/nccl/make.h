#pragma once
// Makes communicators over NCCL. no_nccl.cpp stands in where that was not built.
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cuda/kernel.h"
#include "cuda/runtime.h"
#include "kolo/spi/communicator.h"
#include "nccl/agree.h"
#include "telemetry/logger.h"

namespace kolo::nccl {

class Library;

struct NcclParts {
  Rank rank = 0;  // of the group
  int size = 1;
  std::optional<Rank> world_rank{};  // where the group is a part of more ranks; NCCL tells processes apart by it
  std::string host;
  Exchange exchange;                       // among the group; used while it is made
  cuda::RuntimePtr runtime;                // null where this rank has no device: then no rank gets a communicator
  std::shared_ptr<const Library> library;  // the same
  int device = 0;
  bool shared_device = false;     // several ranks may be on one device: for tests
  int max_ctas = 0;               // blocks of the device that one collective may take; 0: as many as NCCL likes
  bool registers_buffers = true;  // memory of allocate(), with NCCL
  std::shared_ptr<cuda::KernelImage> kernels;                    // for averages; null: a build without device code
  std::chrono::milliseconds timeout{std::chrono::seconds(600)};  // of the making and of every operation
  std::chrono::milliseconds farewell{std::chrono::seconds(2)};   // of the end, see CommHandle::end()
  std::function<void()> check_peers;                             // see CommParts::check_peers
  std::function<void()> before_abort;                            // see CommParts::before_abort
  std::filesystem::path system_root = "/";                       // where /sys and /proc are: for tests
  telemetry::Logger log;
};

// Collective. Ranks that cannot form a group all throw the same error, see check_agreement().
// Sets variables of the environment that NCCL reads (see environment.h), where the user has not. NCCL reads NCCL_ALGO
// (ring or tree) each time that a communicator is made; ranks that differ in it throw MismatchError.
[[nodiscard]] std::unique_ptr<Communicator> make_nccl(const NcclParts& parts);

// "NCCL 2.28.9 from ...", and with several hosts "; between hosts InfiniBand mlx5_0".
[[nodiscard]] std::string describe(const Library& library, bool several_hosts);

}  // namespace kolo::nccl
