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

// The warning, or nothing when all is well or there is no such network.
[[nodiscard]] std::optional<std::string> network_warning(const FastNetwork& network, const Environment& environment);
// "InfiniBand mlx5_0, mlx5_1" or "sockets".
[[nodiscard]] std::string network_text(const FastNetwork& network, const Environment& environment);
[[nodiscard]] FastNetwork find_network(const std::filesystem::path& folder = "/sys/class/infiniband");

}  // namespace kolo::nccl
