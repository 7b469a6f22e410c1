#pragma once
#include <span>
#include <string>
#include <vector>

#include "kolo/types.h"

namespace kolo::cluster {

struct Place {
  Placement placement;
  std::vector<Rank> local_ranks;  // ascending
};

// Where `rank` stands, given every rank's host key in rank order. Hosts are numbered by their lowest rank.
// `placement.host` is left empty.
[[nodiscard]] Place place(Rank rank, std::span<const std::string> host_keys);

}  // namespace kolo::cluster
