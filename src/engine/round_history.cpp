#include "engine/round_history.h"

namespace kolo::engine {
namespace {

constexpr std::size_t kLongest = 4096;

}  // namespace

bool RoundHistory::others_open(std::size_t id) const { return open_.size() > open_.count(id); }

void RoundHistory::ended(std::size_t id, bool failed) {
  if (ends_.size() == kLongest) ends_.erase(ends_.begin(), ends_.begin() + kLongest / 2);
  open_.erase(id);
  ends_.push_back({id, {open_.begin(), open_.end()}, failed});
  if (!first_) first_ = ends_.back();
}

std::size_t RoundHistory::alike_before(std::size_t at) const {
  std::size_t length = 0;
  while (length < at && ends_[at - 1 - length].id == ends_[ends_.size() - 1 - length].id) ++length;
  return length;
}

const RoundHistory::End* RoundHistory::match(const std::function<bool(std::size_t id)>& may, After after) const {
  const End* best = nullptr;
  std::size_t best_length = 0;
  for (std::size_t at = ends_.size(); at-- > 1;) {  // of equally long stretches the latest ...
    const End& follower = ends_[at];
    const bool as_before = open_.contains(follower.id) || !others_open(follower.id) || !follower.beside.empty();
    const bool like_the_last = ends_[at - 1].failed == ends_.back().failed;
    if (!as_before || !may(follower.id) || (after == After::like_the_last && !like_the_last)) continue;
    std::size_t length = alike_before(at);
    if (length == at) ++length;  // ... but the program's beginning, which is that of a period
    if (length <= best_length) continue;
    best = &follower;
    best_length = length;
  }
  return best;
}

const RoundHistory::End* RoundHistory::next(const std::function<bool(std::size_t id)>& may) const {
  if (!open_.empty()) return match(may, After::any);
  if (const End* best = match(may, After::like_the_last)) return best;
  if (ends_.empty() || !ends_.back().failed) return match(may, After::any);
  return may(first_->id) ? &*first_ : nullptr;
}

std::vector<std::size_t> RoundHistory::beside(std::size_t id) const {
  const End* best = match([id](std::size_t each) { return each == id; }, After::any);
  return best == nullptr ? std::vector<std::size_t>() : best->beside;
}

}  // namespace kolo::engine
