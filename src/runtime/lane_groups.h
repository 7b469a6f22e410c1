#pragma once
// Communicators over NCCL for parts of a world: inside each host, and between ranks that have the same share of what
// travels between hosts (device/share.h).
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "device/route.h"
#include "nccl/make.h"
#include "runtime/wires.h"

namespace kolo::runtime {

// Collective over the ranks that the exchange of `world` reaches, where each names its own group; one that is in none
// passes no members and gets null. What goes wrong at one rank is the same error on all.
[[nodiscard]] std::unique_ptr<Communicator> make_group(const nccl::NcclParts& world, std::span<const Rank> members);

// "device gradients: in two steps: ...", for people.
[[nodiscard]] std::string describe_steps(const Wires& wires, device::Route route);

}  // namespace kolo::runtime
