#pragma once
// How gradients of devices reach all ranks.
#include <functional>
#include <memory>
#include <vector>

#include "kolo/spi/communicator.h"

namespace kolo::device {

enum class Route {
  devices,            // the lane's communicator is over all ranks
  hosts,              // it is of this rank alone: hosts carry whole buckets (engine/staged_bucket.h)
  shares_by_devices,  // it is over this host's ranks, each of which carries its share of a bucket across, by devices
  shares_by_hosts,    // the same, but the host sees to it that the share goes across (engine/share_bucket.h)
};

// Of the last two: see share.h.
struct LaneShares {
  std::size_t count = 0;                 // shares of a bucket
  std::vector<Rank> ranks;               // that have this rank's share, by host; empty: it has none
  std::unique_ptr<Communicator> across;  // over these, for memory of devices; null: by hosts, or this rank has no share
  // Makes the next communicator over these for memory of the host; null: this rank has no share. All ranks of the world
  // make the same calls in the same order.
  std::function<std::unique_ptr<Communicator>()> between_hosts;
};

}  // namespace kolo::device
