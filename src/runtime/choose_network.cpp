#include "runtime/choose_network.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

#include "kolo/error.h"

namespace kolo::runtime {
namespace {

// InfiniBand, RoCE, Omni-Path and the like are all listed here by the kernel.
bool has_rdma_device() {
  std::error_code none;
  return std::filesystem::directory_iterator("/sys/class/infiniband", none) != std::filesystem::directory_iterator();
}

std::string name_of(Network setting) {
  if (setting == Network::automatic) return "auto";
  return setting == Network::mpi ? "mpi" : "tcp";
}

}  // namespace

Network choose_network(cluster::Bootstrap& bootstrap, Network setting) {
  const auto all = bootstrap.allgather(name_of(setting) + (has_rdma_device() ? " rdma" : " plain"));
  const auto setting_of = [](const std::string& text) { return text.substr(0, text.find(' ')); };
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (setting_of(all[r]) == setting_of(all[0])) continue;
    throw UsageError("KOLO_NETWORK is " + setting_of(all[0]) + " on rank 0 and " + setting_of(all[r]) + " on rank " +
                     std::to_string(r) + ": set it for all ranks (mpirun -x KOLO_NETWORK)");
  }
  if (setting != Network::automatic) return setting;
  const bool everywhere = std::ranges::all_of(all, [](const auto& text) { return text.ends_with(" rdma"); });
  return everywhere ? Network::mpi : Network::tcp;
}

}  // namespace kolo::runtime
