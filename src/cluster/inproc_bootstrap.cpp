#include <numeric>

#include "cluster/host_name.h"
#include "cluster/inproc_gather.h"
#include "cluster/limits.h"
#include "cluster/make.h"

namespace kolo::cluster {
namespace {

using Gather = InprocGather<std::string>;

class InprocBootstrap final : public Bootstrap {
 public:
  InprocBootstrap(std::shared_ptr<Gather> gather, Rank rank, int size)
      : gather_(std::move(gather)), local_ranks_(static_cast<std::size_t>(size)) {
    std::iota(local_ranks_.begin(), local_ranks_.end(), 0);
    placement_.rank = placement_.local_rank = rank;
    placement_.size = placement_.local_size = size;
    placement_.host = host_name();
  }
  ~InprocBootstrap() override { gather_->leave(placement_.rank); }

  [[nodiscard]] const Placement& placement() const noexcept override { return placement_; }
  [[nodiscard]] const std::vector<Rank>& local_ranks() const noexcept override { return local_ranks_; }
  [[nodiscard]] std::vector<std::string> allgather(const std::string& mine) override {
    return *gather_->gather(placement_.rank, mine, kBootstrapTimeout, "bootstrap");
  }

 private:
  std::shared_ptr<Gather> gather_;  // shared by all ranks: it lives as long as any of them
  Placement placement_;
  std::vector<Rank> local_ranks_;
};

}  // namespace

std::vector<std::unique_ptr<Bootstrap>> make_inproc_bootstrap(int ranks) {
  if (ranks < 1) throw UsageError("a world needs at least one rank, not " + std::to_string(ranks));
  const auto gather = std::make_shared<Gather>(ranks);
  std::vector<std::unique_ptr<Bootstrap>> all;
  for (Rank rank = 0; rank < ranks; ++rank) all.push_back(std::make_unique<InprocBootstrap>(gather, rank, ranks));
  return all;
}

}  // namespace kolo::cluster
