#pragma once
// The first conversation of a world: who is here, before any transport of ours exists.
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
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
  // Whether the ranks are threads of this process.
  [[nodiscard]] virtual bool of_threads() const noexcept { return false; }
  // Called now and then while allgather() waits for the others; what it throws ends the wait. Empty: none.
  void set_while_waiting(std::function<void()> hook) { while_waiting_ = std::move(hook); }

 protected:
  [[nodiscard]] const std::function<void()>& while_waiting() const noexcept { return while_waiting_; }

 private:
  std::function<void()> while_waiting_;
};

}  // namespace kolo::cluster
