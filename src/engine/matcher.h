#pragma once
// One rank's part in matching: collects what this rank and its children's subtrees have submitted, and says what the
// whole subtree agrees on. A function of what was put in; no time, no messages, no threads.
//
//   own requests ------+
//   entries of a child +--> take_ready(): what everyone here and below has submitted --> parent, or the root's list
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/messages.h"
#include "engine/tree.h"

namespace kolo::engine {

// Thread-confined.
class Matcher {
 public:
  explicit Matcher(Tree tree) : tree_(tree), children_(tree.children()) {}

  // REQUIRES: no entry of that name from this rank, or that child, is waiting.
  void add_own(Entry entry);
  void add_from_child(Rank child, Entry entry);
  // Entries of the whole subtree, in the order in which this rank submitted them; they are forgotten here.
  [[nodiscard]] std::vector<Entry> take_ready();
  // Forgets everything but gradient rounds; for a failure that ends the named operations in progress.
  void forget_named();
  void forget(const std::string& name);

  // `child` says which ranks of its subtree have not submitted `name`. Unless `certain` that somebody waits for it,
  // this is kept only if something else of that name is.
  void note_missing(Rank child, const std::string& name, std::vector<Rank> ranks, bool certain);
  // Who has not submitted `name`, as far as this rank can know: itself, what a child said, or the child's whole
  // subtree.
  [[nodiscard]] std::vector<Rank> missing(const std::string& name) const;
  [[nodiscard]] bool has_own(const std::string& name) const;
  [[nodiscard]] bool has_from_child(Rank child, const std::string& name) const;
  [[nodiscard]] std::vector<std::string> names_without_own() const;
  [[nodiscard]] bool empty() const noexcept { return waiting_.empty(); }

 private:
  struct Waiting {
    std::optional<Entry> own;
    std::map<Rank, Entry> from_children;
    std::map<Rank, std::vector<Rank>> missing_below;  // by child, as it said
    std::uint64_t arrival = 0;                        // of this rank's own entry
  };
  [[nodiscard]] bool complete(const Waiting& waiting) const;

  Tree tree_;
  std::vector<Rank> children_;
  std::map<std::string, Waiting> waiting_;
  std::vector<std::string> completed_;  // names that may have become complete since the last take_ready()
  std::uint64_t arrivals_ = 0;
};

// The entry of a subtree from those of its parts: the first disagreement, all uneven contributions, all failures. The
// observed order is the first part's.
[[nodiscard]] Entry merge(Entry own, const std::map<Rank, Entry>& parts);

}  // namespace kolo::engine
