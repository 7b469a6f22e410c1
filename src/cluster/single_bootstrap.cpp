#include "base/host_name.h"
#include "cluster/make.h"
#include "cluster/placement.h"

namespace kolo::cluster {
namespace {

class SingleBootstrap final : public Bootstrap {
 public:
  SingleBootstrap() {
    placement_.host = base::host_name();
    const base::CpuLimits limits = base::cpu_limits();
    set_cores(placement_, {&limits, 1}, limits);
  }
  [[nodiscard]] const Placement& placement() const noexcept override { return placement_; }
  [[nodiscard]] const std::vector<Rank>& local_ranks() const noexcept override { return local_ranks_; }
  [[nodiscard]] std::vector<std::string> allgather(const std::string& mine) override { return {mine}; }

 private:
  Placement placement_;
  std::vector<Rank> local_ranks_{0};
};

}  // namespace

std::unique_ptr<Bootstrap> make_single_bootstrap() { return std::make_unique<SingleBootstrap>(); }

}  // namespace kolo::cluster
