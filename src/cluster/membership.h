#pragma once
// Who is still of this world, as a state machine: observations and messages in, messages and events out. No sockets, no
// clock, no threads. One per rank. docs/protocol.md, "Who is alive".
//
//   observe() ---+                                  +--> send() to a rank
//   receive() ---+--> Membership (one per rank) ----+--> lost(): now known, whoever has seen it
//   probed() ----+                                  +--> fence(), probe(): answered by observe() and probed()
//                                                   +--> changed(): survivors() or fate() has another answer
//
// What is known of a rank only grows (Condition), and is passed on to the neighbours by whoever learns it. The lowest
// rank that is not known to be gone leads: it proposes the list of those left, everybody on it votes, and the list
// holds once all have. A member votes for a list only if nobody on it is gone as far as it knows, so of two lists that
// have a voter in common the later is a part of the earlier. Any two majorities have one.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "cluster/monitor_messages.h"
#include "kolo/types.h"

namespace kolo::cluster {

class MembershipHost {
 public:
  virtual ~MembershipHost() = default;
  // In order between two ranks, while both live. To a lost rank: only if a connection is there already.
  virtual void send(Rank to, const Message& message) = 0;
  // Once for each; `heard_from` is this rank itself for what it has seen with its own eyes.
  virtual void lost(Rank rank, Condition condition, Rank heard_from) = 0;
  // End a process of this rank's host. Answer: observe(rank, dead).
  virtual void fence(Rank rank) = 0;
  // Ask the host of a lost rank whether it is dead. Answer: probed(), and refused() before it if so.
  virtual void probe(Rank rank) = 0;
  virtual void changed() = 0;
};

struct MembershipParts {
  Rank rank = 0;
  std::vector<int> hosts;        // by rank: a number for each host
  std::vector<Rank> neighbours;  // of this rank in the tree
};

// How this rank stands in its world.
enum class Fate : std::uint8_t {
  whole,     // nobody is lost
  agreeing,  // somebody is, and the list is not settled
  agreed,
  cut_off,   // those left here are no majority, and others may live elsewhere: nobody here goes on
  excluded,  // the others have given this rank up
};

// Externally synchronized.
class Membership {
 public:
  Membership(MembershipParts parts, MembershipHost& host);

  void observe(Rank rank, Condition condition);
  // Of News, Proposal, Vote, Verdict and Arrival.
  void receive(Rank from, const Message& message);
  void probed(Rank rank);
  // The host of `rank`, which was called, says that there is no such process any more.
  void refused(Rank rank);
  // For a while this rank was away itself, or did not hear of others, or could not reach them: they may have gone on
  // without it. From then on nobody of another host counts as unable to, even if he is known to be dead now.
  void doubt();
  // This rank begins anew with the others of the list of `epoch`. Once all do, everybody_has_come(epoch).
  void arrive(std::uint64_t epoch);

  [[nodiscard]] Fate fate() const;
  // Who goes on. REQUIRES: fate() is whole or agreed.
  [[nodiscard]] const Agreement& agreement() const noexcept { return agreed_; }
  [[nodiscard]] Condition condition(Rank rank) const { return conditions_[index(rank)]; }
  [[nodiscard]] bool gone(Rank rank) const { return condition(rank) != Condition::alive; }
  // Lost, as against gone in order.
  [[nodiscard]] bool is_lost(Rank rank) const { return gone(rank) && condition(rank) != Condition::left; }
  // Whether this rank is the lowest that is not known to be gone.
  [[nodiscard]] bool leads() const { return leader() == parts_.rank; }
  // Members of the current list whose answer is awaited: at the leader who has not voted, elsewhere the leader.
  [[nodiscard]] std::vector<Rank> awaited() const;
  [[nodiscard]] bool everybody_has_come(std::uint64_t epoch) const { return together_ >= epoch; }

 private:
  struct Round {  // at the leader
    Agreement proposed;
    Agreement last;  // the last that held, as far as any voter knows
    std::set<Rank> votes;
    void count(Rank voter, const Agreement& known);
    [[nodiscard]] bool complete() const { return votes.size() == proposed.members.size(); }
  };
  struct Asked {  // a proposal that this rank will vote for
    Rank leader = 0;
    Agreement proposed;
  };

  static std::size_t index(Rank rank) { return static_cast<std::size_t>(rank); }
  [[nodiscard]] int size() const { return static_cast<int>(conditions_.size()); }
  [[nodiscard]] std::vector<Rank> live() const;
  [[nodiscard]] Rank leader() const { return live().front(); }
  [[nodiscard]] bool out() const { return excluded_ || cut_off_; }
  [[nodiscard]] bool settled() const;
  [[nodiscard]] Standings standings() const;
  [[nodiscard]] bool sensible(const Message& message) const;

  void take(Rank from, const News& news);
  void take(Rank from, const Proposal& proposal);
  void take(Rank from, const Vote& vote);
  void take(Rank from, const Verdict& verdict);
  void take(Rank from, const Arrival& arrival);
  // True if anything was new. Tells the host of losses.
  bool learn(const Standings& standings, Rank from);
  bool learn(Standing standing, Rank from);
  void tell_off(Rank from);
  void give_up();
  void spread(std::vector<Rank> told, Rank from);
  void act();
  void fence_lost();
  void propose();
  void vote();
  [[nodiscard]] bool cannot_go_on(Rank rank, const std::vector<Rank>& members) const;
  void conclude();
  void decide(bool majority);
  void gather();

  MembershipParts parts_;
  MembershipHost& host_;
  std::vector<Condition> conditions_;
  bool any_lost_ = false;
  bool doubt_ = false;
  bool excluded_ = false;
  bool cut_off_ = false;
  Agreement agreed_;
  std::uint64_t highest_ = 0;  // epoch seen anywhere
  std::uint64_t voted_ = 0;    // highest epoch voted for
  std::optional<Asked> asked_;
  std::optional<Round> round_;
  std::optional<Rank> followed_;  // the leader that has been told
  std::set<Rank> fenced_;         // was asked for
  std::set<Rank> probing_;        // was asked for
  std::set<Rank> probed_;         // answered
  std::uint64_t own_arrival_ = 0;
  std::map<Rank, std::uint64_t> arrivals_;  // at the leader
  std::uint64_t together_ = 0;
};

}  // namespace kolo::cluster
