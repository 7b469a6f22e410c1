#pragma once
// What a host's ranks say of their devices when they begin: one line, of its first rank.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cuda/identity.h"
#include "runtime/device_agreement.h"

namespace kolo::runtime {

using LinkBetween = std::function<std::optional<cuda::Link>(const std::string& from, const std::string& to)>;

// "peer access between all": of devices by their addresses; empty for a single one. Of one that this process does not
// see it says so.
[[nodiscard]] std::string links_text(const std::vector<std::string>& devices, const LinkBetween& between);
// "ranks 0, 1 on host a: 2 x NVIDIA H100 80GB HBM3, 79.6 GiB (0000:01:00.0, 0000:02:00.0), ..."
[[nodiscard]] std::string host_text(const std::vector<DeviceFacts>& ranks, int host_number, const LinkBetween& between);
// The same, with CUDA's versions here and `reduction`, which says what reduces: "NCCL 2.28.9 from ...".
[[nodiscard]] std::string start_line(const std::vector<DeviceFacts>& ranks, int host_number,
                                     const cuda::Runtime& runtime, const std::string& reduction);

}  // namespace kolo::runtime
