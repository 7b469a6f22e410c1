#pragma once
// The first conversation of a world: who is here, before any transport of ours exists.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "kolo/types.h"

namespace kolo::cluster {

// Blocking and slow; used while a Context is built. Collective calls in the same order on all ranks.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  [[nodiscard]] virtual const Placement& placement() const noexcept = 0;
  // Ranks (of the world) on this host, ascending; element local_rank is this one.
  [[nodiscard]] virtual const std::vector<Rank>& local_ranks() const noexcept = 0;
  // Everybody's text, in rank order.
  [[nodiscard]] virtual std::vector<std::string> allgather(const std::string& mine) = 0;
};

}  // namespace kolo::cluster
