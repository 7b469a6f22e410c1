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
    if (condition) return;
    throw DamagedMessage("malformed control message from rank " + std::to_string(from_) + ": " + what +
                         ". Do all ranks run the same version of kolo?");
  }
  void rank(Rank rank) const { require(rank >= 0 && rank < tree_.size, "a rank outside the world"); }
  void ranks(const std::vector<Rank>& ranks) const {
    for (const Rank each : ranks) rank(each);
  }
  void name(const std::string& name) const { require(!name.empty(), "an empty name"); }
  void signature(const Signature& signature) const {
    require(std::all_of(signature.sizes.begin(), signature.sizes.end(), [](auto size) { return size >= 0; }),
            "a negative size");
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
    require(entry.ranks.size() == entry.bytes.size(), "ranks and contributions differ in number");
  }
  void item(const Item& item) const {
    require(!item.names.empty(), "an item without a name");
    for (const auto& each : item.names) name(each);
    require(std::set<std::string_view>(item.names.begin(), item.names.end()).size() == item.names.size(),
            "an item with a name twice");
    conflict(item.conflict);
    ranks(item.failed_ranks);
    require(item.bytes.empty() || item.bytes.size() == static_cast<std::size_t>(tree_.size),
            "the number of contributions is not the world size");
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
    checker.require(envelope.entries.empty() && envelope.reports.empty(), "entries or reports from a parent");
  } else {
    checker.require(envelope.items.empty() && !envelope.withdrawal, "items or a withdrawal from a child");
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
    checker.require(!envelope.failure->ranks.empty(), "a failure without a rank");
    checker.ranks(envelope.failure->ranks);
  }
  // A fatal message is the last one and only reported: its ranks may be unknown.
}

void check(const Item& item, const std::vector<const Signature*>& own, const Tree& tree) {
  const Checker checker(tree, tree.is_root() ? tree.rank : tree.parent());
  const Signature& first = *own.front();
  if (own.size() > 1) {
    checker.require(!item.conflict && item.failed_ranks.empty(), "a mismatch or refusal of several operations at once");
    checker.require(std::all_of(own.begin(), own.end(), [&](const auto* other) { return may_fuse(first, *other); }),
                    "operations in one bucket that cannot be fused");
  }
  if (item.conflict || !item.failed_ranks.empty()) return;  // not executed
  checker.require(item.order.empty() || first.kind == Kind::gradient_round,
                  "an order of gradients in another operation");
  checker.require(item.bytes.empty() == (first.kind != Kind::allgather),
                  "contributions without an allgather, or the reverse");
  std::uint64_t total = 0;
  for (const auto bytes : item.bytes) {
    checker.require(!__builtin_add_overflow(total, bytes, &total) && total <= std::numeric_limits<std::int64_t>::max(),
                    "contributions whose sum overflows");
  }
  checker.require(item.bytes.empty() || item.bytes[static_cast<std::size_t>(tree.rank)] == payload_bytes(first),
                  "the size of this rank's contribution is wrong");
}

}  // namespace kolo::engine
