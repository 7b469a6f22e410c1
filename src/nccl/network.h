#pragma once
// Whether NCCL will use the fast network that is there. It falls back to sockets without a word, at a fraction of the
// speed.
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "nccl/environment.h"

namespace kolo::nccl {

struct FastDevice {
  std::string name;  // "mlx5_0"
  bool active = false;
};

struct FastNetwork {
  std::vector<FastDevice> devices;
  bool verbs = true;  // libibverbs is there, without which NCCL cannot talk to them
};

// What is known before NCCL begins: "InfiniBand (mlx5_0), but NCCL will ...: NCCL_IB_DISABLE=1 is set; unset it".
// Nothing when all is well or there is no such network.
[[nodiscard]] std::optional<std::string> network_trouble(const FastNetwork& network, const Environment& environment);

// The same sentence for devices that nothing stands in the way of, and of which this process has none open: NCCL opens
// them with its first communicator, and keeps them. Nothing where some are `open`, by NCCL or by MPI, which cannot be
// told apart, and where another plugin than NCCL's own carries messages.
[[nodiscard]] std::optional<std::string> unused_network(const FastNetwork& network, const Environment& environment,
                                                        int open);

// "InfiniBand mlx5_0, mlx5_1" or "sockets".
[[nodiscard]] std::string network_text(const FastNetwork& network, const Environment& environment);
[[nodiscard]] FastNetwork find_network(const std::filesystem::path& folder);  // /sys/class/infiniband
// How many of its devices this process has open.
[[nodiscard]] int open_devices(const std::filesystem::path& descriptors);  // /proc/self/fd

}  // namespace kolo::nccl
