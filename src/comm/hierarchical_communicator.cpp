// A communicator made of two: shared memory inside each host, an algorithm over the network across the hosts, in which
// every local rank of the smallest host drives its share (hierarchy.h). Hosts may have different numbers of ranks, and
// ranks may be numbered in any way.
//
// Operations take turns in the order of their start, which is the same on all ranks. An allreduce for which another
// network algorithm is asked by name runs over the whole group without regard to hosts.
#include <algorithm>
#include <utility>

#include "comm/complete_operation.h"
#include "comm/group_communicator.h"
#include "comm/hierarchy.h"
#include "comm/select.h"
#include "comm/validate.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"

namespace kolo::comm {
namespace {

// Among the group's operations, so that whoever waits for another one advances it too. It counts as one before it is
// started: what is started sends at once.
class FlatOperation final : public collectives::Machine {
 public:
  FlatOperation(std::shared_ptr<collectives::Group> group, Communicator& flat, const AllreduceOptions& options)
      : Machine(std::move(group)), operation_(flat.start(options)) {}
  [[nodiscard]] std::vector<Rank> waiting_for() const override { return operation_->waiting_for(); }

 private:
  bool step() override { return operation_->advance(); }
  std::unique_ptr<Operation> operation_;
};

class HierarchicalCommunicator final : public GroupCommunicator {
 public:
  HierarchicalCommunicator(const HierarchicalParts& parts, HierarchyPtr hierarchy)
      : GroupCommunicator(hierarchy->group(), waiting(parts.whole.spin_iterations)),
        parts_(parts.whole),
        may_be_flat_(parts.may_be_flat),
        hierarchy_(std::move(hierarchy)),
        chooser_(surroundings_of(*hierarchy_, parts.whole)) {
    parts_.first_tag += parts.whole.tag_count / 2;
    parts_.tag_count -= parts.whole.tag_count / 2;
    parts_.shared_memory = nullptr;
    parts_.calls = nullptr;  // FlatOperation counts
    parts_.hosts = static_cast<int>(parts.hosts.size());
    flat_ = make_algorithmic(parts_);
  }

  std::unique_ptr<Operation> start(const AllreduceOptions& options) override {
    require_usable();
    validate(options);
    if (options.registered != nullptr) {
      static_cast<void>(direct_buffer_of(options));  // refused here and not later
    } else {
      prepare();  // waits for ranks, so before anything is in flight
    }
    if (is_flat(options)) {
      return std::make_unique<FlatOperation>(group(), *flat_, without_buffer(options));
    }
    if (options.count == 0 && options.flags.words.empty()) return std::make_unique<CompleteOperation>();
    return begun(start_hierarchical_allreduce(hierarchy_, options));
  }

  std::unique_ptr<Operation> start(const BroadcastOptions& options) override {
    require_usable();
    validate(options, size());
    if (options.bytes == 0) return std::make_unique<CompleteOperation>();
    prepare();
    return begun(start_hierarchical_broadcast(hierarchy_, options));
  }

  std::unique_ptr<Operation> start(const AllgatherOptions& options) override {
    require_usable();
    validate(options, size(), rank());
    prepare();
    return begun(start_hierarchical_allgather(hierarchy_, options));
  }

  std::unique_ptr<Operation> start(const ReduceScatterOptions& options) override {
    require_usable();
    validate(options, size(), rank());
    prepare();
    return begun(start_hierarchical_reduce_scatter(hierarchy_, options));
  }

  std::unique_ptr<Operation> start_barrier() override {
    require_usable();
    prepare();
    return begun(start_hierarchical_barrier(hierarchy_));
  }

  // Memory is the host's affair: this waits for its ranks only.
  std::vector<std::unique_ptr<RegisteredBuffer>> allocate(std::span<const std::size_t> sizes,
                                                          std::chrono::milliseconds timeout) override {
    require_usable();
    together([&] { hierarchy_->prepare(timeout); });
    group()->begin();
    return allocated([&] { return allocate_shared_buffers(hierarchy_->memory(), sizes, timeout); });
  }

  [[nodiscard]] Choice explain(const AllreduceOptions& options) const override {
    if (is_flat(options)) return flat_->explain(without_buffer(options));
    AllreduceOptions asked = options;
    asked.algorithm = Algorithm::hierarchical;
    Choice choice = chooser_.select(may_be_flat_ ? options : asked).choice;
    std::string& reason = choice.reason;
    reason += "; direct inside each host; between hosts " + std::to_string(hierarchy_->lanes()) +
              (hierarchy_->lanes() == 1 ? " rank of each host" : " ranks of each host, one part each");
    if (!hierarchy_->in_a_lane()) return choice;
    const std::string across = explain_across(*hierarchy_, options);
    reason += ": " + across.substr(0, across.find(';'));
    return choice;
  }

 private:
  void prepare() {
    together([this] { hierarchy_->prepare(std::min(parts_.timeout, start_limit())); });
  }
  // As over any network, but that there is shared memory, too.
  static Waiting waiting(int spin_iterations) {
    return {.in_shared_memory = true, .far_away = true, .spin_iterations = std::min(spin_iterations, 20)};
  }
  // Another way over the whole group: asked for, or cheaper. Then flat_, which knows all the others, chooses among
  // them.
  [[nodiscard]] bool is_flat(const AllreduceOptions& options) const {
    if (!may_be_flat_ && options.algorithm == Algorithm::automatic) return false;
    return chooser_.way(options) != Way::hierarchical;
  }
  static Surroundings surroundings_of(const Hierarchy& hierarchy, const AlgorithmicParts& parts) {
    Surroundings surroundings;
    surroundings.size = hierarchy.size();
    surroundings.hosts = static_cast<int>(hierarchy.hosts());
    surroundings.lanes = static_cast<int>(hierarchy.lanes());
    surroundings.segment_bytes = parts.ring_segment_bytes;
    return surroundings;
  }
  static AllreduceOptions without_buffer(AllreduceOptions options) {
    options.registered = nullptr;
    return options;
  }

  AlgorithmicParts parts_;  // of flat_
  bool may_be_flat_;
  HierarchyPtr hierarchy_;
  Chooser chooser_;
  std::unique_ptr<Communicator> flat_;
};

}  // namespace

std::unique_ptr<Communicator> make_hierarchical(const HierarchicalParts& parts) {
  // The first half of the tags is the hierarchy's, the second that of operations over the whole group.
  HierarchicalParts first_half = parts;
  first_half.whole.tag_count /= 2;
  return std::make_unique<HierarchicalCommunicator>(parts, std::make_shared<Hierarchy>(first_half));
}

}  // namespace kolo::comm
