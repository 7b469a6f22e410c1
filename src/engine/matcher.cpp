#include "engine/matcher.h"

#include <algorithm>

#include "engine/signature.h"

namespace kolo::engine {

Entry merge(Entry own, const std::map<Rank, Entry>& parts) {
  for (const auto& [child, part] : parts) {
    if (!own.conflict && part.conflict) own.conflict = part.conflict;
    if (!own.conflict && !agree(own.signature, part.signature)) {
      own.conflict = Conflict{own.signature, own.rank, part.signature, part.rank};
    }
    own.ranks.insert(own.ranks.end(), part.ranks.begin(), part.ranks.end());
    own.bytes.insert(own.bytes.end(), part.bytes.begin(), part.bytes.end());
    own.failed_ranks.insert(own.failed_ranks.end(), part.failed_ranks.begin(), part.failed_ranks.end());
    if (own.failure.empty()) own.failure = part.failure;
    for (const std::uint32_t id : part.beside) {
      if (std::ranges::find(own.beside, id) == own.beside.end()) own.beside.push_back(id);
    }
  }
  return own;
}

bool Matcher::complete(const Waiting& waiting) const {
  return waiting.own && waiting.from_children.size() == children_.size();
}

void Matcher::add_own(Entry entry) {
  auto& waiting = waiting_[entry.name];
  const std::string name = entry.name;
  waiting.own = std::move(entry);
  waiting.arrival = arrivals_++;
  if (complete(waiting)) completed_.push_back(name);
}

void Matcher::add_from_child(Rank child, Entry entry) {
  auto& waiting = waiting_[entry.name];
  const std::string name = entry.name;
  waiting.from_children.insert_or_assign(child, std::move(entry));
  if (complete(waiting)) completed_.push_back(name);
}

std::vector<Entry> Matcher::take_ready() {
  std::vector<std::pair<std::uint64_t, Entry>> ready;
  for (const auto& name : completed_) {
    const auto found = waiting_.find(name);
    if (found == waiting_.end()) continue;
    ready.emplace_back(found->second.arrival, merge(std::move(*found->second.own), found->second.from_children));
    waiting_.erase(found);
  }
  completed_.clear();
  std::sort(ready.begin(), ready.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Entry> entries;
  entries.reserve(ready.size());
  for (auto& [arrival, entry] : ready) entries.push_back(std::move(entry));
  return entries;
}

void Matcher::forget_named() {
  const auto is_named = [](const Entry& entry) { return entry.signature.kind != Kind::gradient_round; };
  std::erase_if(waiting_, [&](const auto& row) {
    const auto& waiting = row.second;
    if (waiting.own) return is_named(*waiting.own);
    return std::all_of(waiting.from_children.begin(), waiting.from_children.end(),
                       [&](const auto& part) { return is_named(part.second); });
  });
  std::erase_if(completed_, [&](const auto& name) { return !waiting_.contains(name); });
}

void Matcher::forget(const std::string& name) {
  waiting_.erase(name);
  std::erase(completed_, name);
}

void Matcher::note_missing(Rank child, const std::string& name, std::vector<Rank> ranks, bool certain) {
  if (certain || waiting_.contains(name)) waiting_[name].missing_below[child] = std::move(ranks);
}

bool Matcher::has_own(const std::string& name) const {
  const auto found = waiting_.find(name);
  return found != waiting_.end() && found->second.own;
}

bool Matcher::has_from_child(Rank child, const std::string& name) const {
  const auto found = waiting_.find(name);
  return found != waiting_.end() && found->second.from_children.contains(child);
}

std::vector<std::string> Matcher::names_without_own() const {
  std::vector<std::string> names;
  for (const auto& [name, waiting] : waiting_) {
    if (!waiting.own) names.push_back(name);
  }
  return names;
}

std::vector<Rank> Matcher::missing(const std::string& name) const {
  std::vector<Rank> ranks;
  const auto found = waiting_.find(name);
  if (found == waiting_.end()) return ranks;
  if (!found->second.own) ranks.push_back(tree_.rank);
  for (const Rank child : children_) {
    if (found->second.from_children.contains(child)) continue;
    const auto told = found->second.missing_below.find(child);
    const auto below = told != found->second.missing_below.end() ? told->second : tree_.subtree(child);
    ranks.insert(ranks.end(), below.begin(), below.end());
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace kolo::engine
