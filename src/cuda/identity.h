#pragma once
// What devices are, and how two of one host reach each other, for people.
#include <optional>
#include <string>

#include "cuda/runtime.h"

namespace kolo::cuda {

struct Identity {
  std::string name;        // "NVIDIA H100 80GB HBM3"
  std::size_t memory = 0;  // bytes
  std::string address;     // on the PCI bus: "0000:01:00.0"; unique on a host
  std::string uuid;        // its digits; empty where the runtime does not say
};
[[nodiscard]] Identity identity_of(const Runtime& runtime, int device);

// Whether a device reads and writes another one's memory by itself. Native atomics tell a link such as NVLink; the
// runtime does not name it.
enum class Link { none, peer_access, peer_access_with_atomics };

// Nothing where this process does not see both.
[[nodiscard]] std::optional<Link> link_between(const Runtime& runtime, const std::string& from, const std::string& to);

}  // namespace kolo::cuda
