#pragma once
#include <memory>
#include <vector>

#include "transport/transport.h"

namespace kolo::transport {

// Some ranks of `whole` as a Transport of their own: rank i of it is rank members[i] of `whole`. This rank must be one
// of them, and all of them name the same members in the same order. Tags are those of `whole`: its owner keeps the
// ranges apart. Waiting, waking and looking after peers are those of `whole`, so PeerLostError names ranks of the
// world. `whole` is borrowed.
[[nodiscard]] std::unique_ptr<Transport> make_subset(Transport& whole, std::vector<Rank> members);

}  // namespace kolo::transport
