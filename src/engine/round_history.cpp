#include "engine/round_history.h"

namespace kolo::engine {
namespace {

constexpr std::size_t kLongest = 4096;

}  // namespace

bool RoundHistory::others_open(std::size_t id) const { return open_.size() > open_.count(id); }

void RoundHistory::ended(std::size_t id) {
  if (ends_.size() == kLongest) ends_.erase(ends_.begin(), ends_.begin() + kLongest / 2);
  open_.erase(id);
  ends_.push_back({id, {open_.begin(), open_.end()}});
}

const RoundHistory::End* RoundHistory::next(const std::function<bool(std::size_t id)>& may) const {
  const End* best = nullptr;
  std::size_t best_length = 0;
  for (std::size_t at = ends_.size(); at-- > 1;) {  // of equally long stretches the latest ...
    const End& follower = ends_[at];
    const bool as_before = open_.contains(follower.id) || !others_open(follower.id) || !follower.beside.empty();
    if (!as_before || !may(follower.id)) continue;
    std::size_t length = 0;
    while (length < at && ends_[at - 1 - length].id == ends_[ends_.size() - 1 - length].id) ++length;
    if (length == at) ++length;  // ... but the program's beginning, which is that of a period
    if (length <= best_length) continue;
    best = &follower;
    best_length = length;
  }
  return best;
}

}  // namespace kolo::engine
