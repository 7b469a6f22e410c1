#include "engine/message_check.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>
#include <string_view>

#include "engine/ready_list.h"

namespace kolo::engine {
namespace {

class Checker {
 public:
  Checker(Tree tree, Rank from) : tree_(tree), from_(from) {}

  void require(bool condition, const char* what) const {
    if (!condition)
      throw DamagedMessage("a control message from rank " + std::to_string(from_) + " is damaged: " + what);
  }
  void rank(Rank rank) const { require(rank >= 0 && rank < tree_.size, "it names a rank that is not in the world"); }
  void ranks(const std::vector<Rank>& ranks) const {
    for (const Rank each : ranks) rank(each);
  }
  void name(const std::string& name) const { require(!name.empty(), "a name is empty"); }
  void signature(const Signature& signature) const {
    require(std::all_of(signature.sizes.begin(), signature.sizes.end(), [](auto size) { return size >= 0; }),
            "a size is negative");
  }
  void conflict(const std::optional<Conflict>& conflict) const {
    if (!conflict) return;
    signature(conflict->first);
    signature(conflict->second);
    rank(conflict->first_rank);
    rank(conflict->second_rank);
  }
  void entry(const Entry& entry) const {
    name(entry.name);
    signature(entry.signature);
    conflict(entry.conflict);
    rank(entry.rank);
    ranks(entry.ranks);
    ranks(entry.failed_ranks);
    require(entry.ranks.size() == entry.bytes.size(), "contributions are not as many as their ranks");
  }
  void item(const Item& item) const {
    require(!item.names.empty(), "an item has no name");
    for (const auto& each : item.names) name(each);
    require(std::set<std::string_view>(item.names.begin(), item.names.end()).size() == item.names.size(),
            "an item has a name twice");
    conflict(item.conflict);
    ranks(item.failed_ranks);
    require(item.bytes.empty() || item.bytes.size() == static_cast<std::size_t>(tree_.size),
            "contributions are not as many as ranks");
  }

 private:
  Tree tree_;
  Rank from_;
};

}  // namespace

void check(const Envelope& envelope, const Tree& tree, Rank from) {
  const Checker checker(tree, from);
  const bool from_parent = !tree.is_root() && from == tree.parent();
  if (from_parent) {
    checker.require(envelope.entries.empty() && envelope.reports.empty(), "a parent asks as a child does");
  } else {
    checker.require(envelope.items.empty() && !envelope.withdrawal, "a child decides as a parent does");
  }
  for (const auto& entry : envelope.entries) checker.entry(entry);
  for (const auto& item : envelope.items) checker.item(item);
  for (const auto& report : envelope.reports) {
    checker.name(report.name);
    checker.ranks(report.missing);
  }
  if (envelope.withdrawal) {
    checker.name(envelope.withdrawal->name);
    checker.ranks(envelope.withdrawal->missing);
  }
  if (envelope.failure) {
    checker.require(!envelope.failure->ranks.empty(), "a failure is nobody's");
    checker.ranks(envelope.failure->ranks);
  }
  // A fatal message is the last one and only reported: its ranks may be unknown.
}

void check(const Item& item, const std::vector<const Signature*>& own, const Tree& tree) {
  const Checker checker(tree, tree.is_root() ? tree.rank : tree.parent());
  const Signature& first = *own.front();
  if (own.size() > 1) {
    checker.require(!item.conflict && item.failed_ranks.empty(), "a disagreement has several names");
    checker.require(std::all_of(own.begin(), own.end(), [&](const auto* other) { return may_fuse(first, *other); }),
                    "operations are listed as one that cannot be");
  }
  if (item.conflict || !item.failed_ranks.empty()) return;  // not executed
  checker.require(item.order.empty() || first.kind == Kind::gradient_round, "an order without gradients");
  checker.require(item.bytes.empty() == (first.kind != Kind::allgather), "contributions without an allgather");
  std::uint64_t total = 0;
  for (const auto bytes : item.bytes) {
    checker.require(!__builtin_add_overflow(total, bytes, &total) && total <= std::numeric_limits<std::int64_t>::max(),
                    "contributions that no memory can hold");
  }
  checker.require(item.bytes.empty() || item.bytes[static_cast<std::size_t>(tree.rank)] == payload_bytes(first),
                  "this rank's contribution has another size");
}

}  // namespace kolo::engine
