// Broadcast and barrier over several hosts.
//
//   inside the root's host   everything to all its ranks
//   across                   each lane sends its part from there to the other hosts
//   inside the others        the lanes' parts to everybody
//
//   root's host   rank 0 [a b] --> rank 1 [a b]        rank 0 drives part a across, rank 1 part b
//   another host  rank 2 [a .]     rank 3 [. b]   -->  rank 2 [a b]   rank 3 [a b]
//
// The bytes cross the network once for each host. A barrier: everybody here; lane 0 across; everybody here again.
#include "comm/staged_operation.h"

namespace kolo::comm {
namespace {

using collectives::kCacheLine;
using collectives::Range;
using Where = StagedOperation::Where;

struct Broadcast {
  Hierarchy* hierarchy;  // kept alive by the operation
  BroadcastOptions options;
  std::vector<std::size_t> parts;  // bytes of each local rank's part

  [[nodiscard]] bool at_root() const { return hierarchy->host_of(options.root) == hierarchy->host(); }
  [[nodiscard]] Range part() const { return hierarchy->part_of_lane(options.bytes, hierarchy->local(), kCacheLine); }

  [[nodiscard]] std::unique_ptr<Operation> at_the_root() const {
    if (!at_root()) return nullptr;
    const auto root = static_cast<Rank>(hierarchy->local_of(options.root));
    return hierarchy->inside().start(BroadcastOptions{options.data, options.bytes, root});
  }
  [[nodiscard]] std::unique_ptr<Operation> across() const {
    if (!hierarchy->in_a_lane()) return nullptr;
    const auto root = static_cast<Rank>(hierarchy->host_of(options.root));
    return hierarchy->across().start(BroadcastOptions{options.data + part().begin, part().size(), root});
  }
  [[nodiscard]] std::unique_ptr<Operation> elsewhere() const {
    if (at_root()) return nullptr;
    const std::byte* mine = hierarchy->in_a_lane() ? options.data + part().begin : options.data + options.bytes;
    return hierarchy->inside().start(AllgatherOptions{mine, parts, options.data});
  }
};

}  // namespace

std::unique_ptr<Operation> start_hierarchical_broadcast(const HierarchyPtr& hierarchy,
                                                        const BroadcastOptions& options) {
  auto work = std::make_shared<Broadcast>(Broadcast{hierarchy.get(), options, {}});
  work->parts.assign(hierarchy->neighbours().size(), 0);
  for (std::size_t lane = 0; lane < hierarchy->lanes(); ++lane) {
    work->parts[lane] = hierarchy->part_of_lane(options.bytes, lane, kCacheLine).size();
  }
  std::vector<StagedOperation::Stage> stages;
  stages.push_back({Where::inside, [work] { return work->at_the_root(); }});
  stages.push_back({Where::across, [work] { return work->across(); }});
  stages.push_back({Where::inside, [work] { return work->elsewhere(); }});
  return std::make_unique<StagedOperation>(hierarchy, std::move(stages));
}

std::unique_ptr<Operation> start_hierarchical_barrier(const HierarchyPtr& hierarchy) {
  const auto inside = [h = hierarchy.get()] { return h->inside().start_barrier(); };
  const auto across = [h = hierarchy.get()] {
    return h->local() == 0 ? h->across().start_barrier() : std::unique_ptr<Operation>{};
  };
  return std::make_unique<StagedOperation>(
      hierarchy,
      std::vector<StagedOperation::Stage>{{Where::inside, inside}, {Where::across, across}, {Where::inside, inside}});
}

}  // namespace kolo::comm
