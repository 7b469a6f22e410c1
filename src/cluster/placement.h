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

// What a rank that is a process tells the others of its place: its host key and the limits of its CPUs.
[[nodiscard]] std::string process_text();
// The same from every rank's process_text(), in rank order, with what follows from the limits.
[[nodiscard]] Place place_process(Rank rank, std::span<const std::string> texts);
// Fills in what follows from the limits of the ranks of one host, of which `mine` are this rank's.
void set_cores(Placement& placement, std::span<const base::CpuLimits> host, const base::CpuLimits& mine);

}  // namespace kolo::cluster
