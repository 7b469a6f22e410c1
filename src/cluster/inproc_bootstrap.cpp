#include "base/host_name.h"
#include "cluster/inproc_gather.h"
#include "cluster/limits.h"
#include "cluster/make.h"
#include "cluster/placement.h"

namespace kolo::cluster {
namespace {

using Gather = InprocGather<std::string>;

class InprocBootstrap final : public Bootstrap {
 public:
  InprocBootstrap(std::shared_ptr<Gather> gather, Place here)
      : gather_(std::move(gather)), placement_(here.placement), local_ranks_(std::move(here.local_ranks)) {
    placement_.host = base::host_name();
    const base::CpuLimits limits = base::cpu_limits();  // of all ranks
    set_cores(placement_, {&limits, 1}, limits);
  }
  ~InprocBootstrap() override { gather_->leave(placement_.rank); }

  [[nodiscard]] const Placement& placement() const noexcept override { return placement_; }
  [[nodiscard]] const std::vector<Rank>& local_ranks() const noexcept override { return local_ranks_; }
  [[nodiscard]] bool of_threads() const noexcept override { return true; }
  [[nodiscard]] std::vector<std::string> allgather(const std::string& mine) override {
    return *gather_->gather(placement_.rank, mine, kBootstrapTimeout, "bootstrap");
  }

 private:
  std::shared_ptr<Gather> gather_;  // shared by all ranks: it lives as long as any of them
  Placement placement_;
  std::vector<Rank> local_ranks_;
};

}  // namespace

std::vector<std::unique_ptr<Bootstrap>> make_inproc_bootstrap(const std::vector<int>& hosts) {
  if (hosts.empty()) throw UsageError("a world needs at least one rank");
  const auto ranks = static_cast<int>(hosts.size());
  std::vector<std::string> keys;
  keys.reserve(hosts.size());
  for (const int host : hosts) keys.push_back(std::to_string(host));
  const auto gather = std::make_shared<Gather>(ranks);
  std::vector<std::unique_ptr<Bootstrap>> all;
  all.reserve(hosts.size());
  for (Rank rank = 0; rank < ranks; ++rank) all.push_back(std::make_unique<InprocBootstrap>(gather, place(rank, keys)));
  return all;
}

}  // namespace kolo::cluster
