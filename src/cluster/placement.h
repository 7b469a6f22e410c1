#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/cores.h"
#include "kolo/types.h"

namespace kolo::cluster {

struct Place {
  Placement placement;
  std::vector<Rank> local_ranks;  // ascending
};

// Where `rank` stands, given every rank's host key in rank order. Hosts are numbered by their lowest rank.
// `placement.host` is left empty.
[[nodiscard]] Place place(Rank rank, std::span<const std::string> host_keys);

// The host key and CPU limits of this process, as a text for the other ranks.
[[nodiscard]] std::string process_text();
// As place(), from every rank's process_text() in rank order. Also sets local_cores and threads.
[[nodiscard]] Place place_process(Rank rank, std::span<const std::string> texts);
// Sets local_cores and threads from the limits of the ranks of one host; `mine` are this rank's.
void set_cores(Placement& placement, std::span<const base::CpuLimits> host, const base::CpuLimits& mine);

}  // namespace kolo::cluster
