#include "cluster/membership.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>

namespace kolo::cluster {
namespace {

bool has(const std::vector<Rank>& ranks, Rank rank) { return std::ranges::binary_search(ranks, rank); }

// "I do not go on": needs no answer.
bool is_farewell(Rank from, const Message& message) {
  const auto* news = std::get_if<News>(&message);
  return news != nullptr && *news == News{{{from, Condition::out}}};
}

}  // namespace

Membership::Membership(MembershipParts parts, MembershipHost& host)
    : parts_(std::move(parts)), host_(host), conditions_(parts_.hosts.size(), Condition::alive) {
  agreed_.members.resize(parts_.hosts.size());
  std::iota(agreed_.members.begin(), agreed_.members.end(), 0);
}

void Membership::observe(Rank rank, Condition condition) {
  if (rank == parts_.rank || excluded_) return;
  if (learn(Standings{{rank, condition}}, parts_.rank)) act();
}

// While nobody is lost, calls are made only because somebody has left: others may be about to, all at once.
void Membership::refused(Rank rank) { observe(rank, any_lost_ ? Condition::dead : Condition::left); }

void Membership::receive(Rank from, const Message& message) {
  if (from < 0 || from >= size() || !sensible(message)) return;
  if (out() || gone(from)) {
    if (!is_farewell(from, message)) tell_off(from);
    return;
  }
  std::visit(
      [&](const auto& value) {
        if constexpr (requires { take(from, value); }) take(from, value);
      },
      message);
  act();
}

void Membership::probed(Rank rank) {
  probed_.insert(rank);
  act();
}

void Membership::arrive(std::uint64_t epoch) {
  own_arrival_ = epoch;
  if (out()) return;
  if (leader() == parts_.rank) {
    arrivals_[parts_.rank] = epoch;
    gather();
  } else {
    host_.send(leader(), Arrival{epoch, false});
  }
}

Fate Membership::fate() const {
  if (excluded_) return Fate::excluded;
  if (cut_off_) return Fate::cut_off;
  if (!any_lost_) return Fate::whole;
  return settled() ? Fate::agreed : Fate::agreeing;
}

std::vector<Rank> Membership::awaited() const {
  if (leader() != parts_.rank) return {leader()};
  std::vector<Rank> missing;
  for (const Rank rank : live()) {
    if (!round_ || !round_->votes.contains(rank)) missing.push_back(rank);
  }
  return missing;
}

std::vector<Rank> Membership::live() const {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < size(); ++rank) {
    if (rank == parts_.rank || !gone(rank)) ranks.push_back(rank);
  }
  return ranks;
}

bool Membership::settled() const { return agreed_.members == live(); }

Standings Membership::standings() const {
  Standings all;
  for (Rank rank = 0; rank < size(); ++rank) {
    if (gone(rank)) all.push_back({rank, condition(rank)});
  }
  return all;
}

// Ranks that exist, lists in order: the rest of this file relies on it.
bool Membership::sensible(const Message& message) const {
  const auto exists = [&](Rank rank) { return rank >= 0 && rank < size(); };
  const auto exist = [&](const Standings& all) {
    return std::ranges::all_of(all, [&](const Standing& standing) { return exists(standing.rank); });
  };
  const auto listed = [&](const Agreement& list) {
    const auto& ranks = list.members;
    return !ranks.empty() && std::ranges::all_of(ranks, exists) &&
           std::ranges::adjacent_find(ranks, std::greater_equal<>()) == ranks.end();
  };
  if (const auto* news = std::get_if<News>(&message)) return exist(news->standings);
  if (const auto* verdict = std::get_if<Verdict>(&message)) return listed(verdict->agreed);
  if (const auto* vote = std::get_if<Vote>(&message)) return exist(vote->standings) && listed(vote->agreed);
  const auto* proposal = std::get_if<Proposal>(&message);
  return proposal == nullptr || (exist(proposal->standings) && listed(proposal->proposed));
}

bool Membership::learn(const Standings& standings, Rank from) {
  std::vector<Rank> told;  // the lost too: one that is only stopped reads it when it wakes
  bool any = false;
  for (const Standing& standing : standings) {
    if (!learn(standing, from)) continue;
    any = true;
    if (is_lost(standing.rank)) told.push_back(standing.rank);
  }
  if (!any || excluded_) return any;
  // Whoever has seen it with his own eyes tells the leader too: the tree may be cut by what he has seen.
  const Rank first = leader();
  if (from == parts_.rank && first != parts_.rank) told.push_back(first);
  spread(std::move(told), from);
  return true;
}

// To the neighbours, but the one it came from, and to others.
void Membership::spread(std::vector<Rank> told, Rank from) {
  for (const Rank neighbour : parts_.neighbours) {
    if (neighbour != from && !gone(neighbour) && !std::ranges::count(told, neighbour)) told.push_back(neighbour);
  }
  const News news{standings(), false, doubt_};
  for (const Rank rank : told) host_.send(rank, news);
}

void Membership::doubt() {
  if (doubt_ || out()) return;
  doubt_ = true;
  spread({}, parts_.rank);
}

bool Membership::learn(Standing standing, Rank from) {
  if (excluded_ || standing.condition == Condition::alive) return false;
  if (standing.rank == parts_.rank) {
    if (standing.condition == Condition::left) return false;
    excluded_ = any_lost_ = true;
    host_.lost(parts_.rank, standing.condition, from);
    host_.changed();
    give_up();
    return true;
  }
  auto& known = conditions_[index(standing.rank)];
  if (standing.condition <= known) return false;
  doubt_ |= standing.condition == Condition::unresponsive;
  const bool news = known == Condition::alive && standing.condition != Condition::left;
  any_lost_ |= news;
  known = standing.condition;
  if (news) host_.lost(standing.rank, standing.condition, from);
  host_.changed();
  return true;
}

// Somebody who counts on this rank, or does not know that he is lost himself.
void Membership::tell_off(Rank from) {
  host_.send(from, News{out() ? Standings{{parts_.rank, Condition::out}} : standings()});
}

// The others need not wait for this rank any more.
void Membership::give_up() {
  for (const Rank rank : live()) {
    if (rank != parts_.rank) tell_off(rank);
  }
}

void Membership::take(Rank from, const News& news) {
  any_lost_ |= news.asks;
  const bool newly = news.doubt && !doubt_;
  doubt_ |= news.doubt;
  if (!learn(news.standings, from) && newly) spread({}, from);
}

void Membership::take(Rank from, const Proposal& proposal) {
  const auto& [epoch, members] = proposal.proposed;
  highest_ = std::max(highest_, epoch);
  any_lost_ = true;
  learn(proposal.standings, from);
  if (!has(members, parts_.rank)) learn(Standings{{parts_.rank, Condition::unreachable}}, from);
  if (out()) return;
  const bool late = epoch <= voted_ || (asked_ && epoch <= asked_->proposed.epoch);
  if (late || std::ranges::any_of(members, [&](Rank rank) { return rank != parts_.rank && gone(rank); })) {
    host_.send(from, Vote{epoch, false, doubt_, highest_, agreed_, standings()});
    return;
  }
  Standings others;  // whom this list leaves out this rank leaves out of all later ones
  for (const Rank rank : live()) {
    if (!has(members, rank)) others.push_back({rank, Condition::unreachable});
  }
  learn(others, from);
  if (asked_ && asked_->leader != parts_.rank) {
    host_.send(asked_->leader, Vote{asked_->proposed.epoch, false, doubt_, highest_, agreed_, standings()});
  }
  asked_ = Asked{from, proposal.proposed};
}

void Membership::take(Rank from, const Vote& vote) {
  highest_ = std::max(highest_, vote.highest);
  doubt_ |= vote.doubt;
  learn(vote.standings, from);
  if (!round_ || round_->proposed.epoch != vote.epoch) return;
  if (vote.accepted) {
    round_->count(from, vote.agreed);
  } else {
    round_.reset();  // once more, with a higher epoch and what the voter knows
  }
}

void Membership::take(Rank /*from*/, const Verdict& verdict) {
  const auto& [epoch, members] = verdict.agreed;
  if (!verdict.majority) {
    cut_off_ |= epoch == voted_;
  } else if (epoch > agreed_.epoch && has(members, parts_.rank) &&
             std::ranges::none_of(members, [&](Rank rank) { return rank != parts_.rank && gone(rank); })) {
    agreed_ = verdict.agreed;
  }
  host_.changed();
}

void Membership::take(Rank from, const Arrival& arrival) {
  if (arrival.all) {
    together_ = std::max(together_, arrival.epoch);
    host_.changed();
  } else {
    arrivals_[from] = arrival.epoch;
    gather();
  }
}

void Membership::gather() {
  if (!settled() || out() || together_ >= agreed_.epoch) return;
  for (const Rank rank : agreed_.members) {
    const auto found = arrivals_.find(rank);
    if (found == arrivals_.end() || found->second != agreed_.epoch) return;
  }
  together_ = agreed_.epoch;
  for (const Rank rank : agreed_.members) {
    if (rank != parts_.rank) host_.send(rank, Arrival{together_, true});
  }
  host_.changed();
}

void Membership::act() {
  if (out() || !any_lost_) return;
  fence_lost();
  if (leader() != parts_.rank && !settled() && followed_ != leader()) {
    followed_ = leader();  // who may not know that a list is due, or be out, and then says so
    host_.send(*followed_, News{standings(), true});
  }
  if (leader() == parts_.rank && !settled() && (!round_ || round_->proposed.members != live())) propose();
  if (asked_) vote();
  if (round_ && round_->complete()) conclude();
}

// A process of this host that is lost, and not known to be dead, is ended by the lowest rank of the host: nothing of it
// may write to what is used again.
void Membership::fence_lost() {
  const auto here = [&](Rank rank) { return parts_.hosts[index(rank)] == parts_.hosts[index(parts_.rank)]; };
  for (const Rank rank : live()) {
    if (here(rank) && rank < parts_.rank) return;
  }
  for (Rank rank = 0; rank < size(); ++rank) {
    if (!here(rank) || !is_lost(rank) || condition(rank) >= Condition::dead) continue;
    if (fenced_.insert(rank).second) host_.fence(rank);
  }
}

void Membership::Round::count(Rank voter, const Agreement& known) {
  votes.insert(voter);
  if (known.epoch > last.epoch) last = known;
}

void Membership::propose() {
  round_ = Round{{++highest_, live()}, agreed_, {}};
  asked_ = Asked{parts_.rank, round_->proposed};
  const Proposal proposal{round_->proposed, standings()};
  for (const Rank rank : round_->proposed.members) {
    if (rank != parts_.rank) host_.send(rank, proposal);
  }
}

// Once nobody of this host that is left out can do anything any more.
void Membership::vote() {
  const auto [leader, proposed] = *asked_;
  const bool stale =
      std::ranges::any_of(proposed.members, [&](Rank rank) { return rank != parts_.rank && gone(rank); });
  for (const Rank rank : fenced_) {
    if (!stale && is_lost(rank) && condition(rank) < Condition::dead) return;
  }
  asked_.reset();
  if (!stale) voted_ = proposed.epoch;
  if (leader != parts_.rank) {
    host_.send(leader, Vote{proposed.epoch, !stale, doubt_, highest_, agreed_, standings()});
  } else if (round_ && round_->proposed.epoch == proposed.epoch) {
    round_->count(parts_.rank, agreed_);
  }
}

// Who is dead, or has said that he will not go on, may have done so before. Not without a member on his own host,
// whom he would have had to end first; nor if all have heard of each other until he died.
bool Membership::cannot_go_on(Rank rank, const std::vector<Rank>& members) const {
  if (condition(rank) < Condition::out) return false;
  const auto beside = [&](Rank member) { return parts_.hosts[index(member)] == parts_.hosts[index(rank)]; };
  return !doubt_ || std::ranges::any_of(members, beside);
}

// All have voted. The list holds if those left out cannot do the same elsewhere: they are a minority of the last list
// that held, or none of them can go on.
void Membership::conclude() {
  const auto& members = round_->proposed.members;
  const auto& last = round_->last;
  const std::size_t all = last.members.size();
  const bool more = 2 * members.size() > all;
  const bool first_half = 2 * members.size() == all && members.front() == last.members.front();
  bool certain = true;
  bool asking = false;
  for (const Rank rank : last.members) {
    if (has(members, rank) || cannot_go_on(rank, members)) continue;
    certain = false;
    if (more || first_half || condition(rank) >= Condition::out || probed_.contains(rank)) continue;
    asking = true;
    if (probing_.insert(rank).second) host_.probe(rank);
  }
  if (more || first_half || certain) {
    decide(true);
  } else if (!asking) {
    decide(false);
  }
}

void Membership::decide(bool majority) {
  const Agreement decided = round_->proposed;
  round_.reset();
  if (majority) {
    agreed_ = decided;
  } else {
    cut_off_ = true;
  }
  for (const Rank rank : decided.members) {
    if (rank != parts_.rank) host_.send(rank, Verdict{decided, majority});
  }
  host_.changed();
}

}  // namespace kolo::cluster
