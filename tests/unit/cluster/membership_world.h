#pragma once
// All ranks' memberships in one thread. Messages wait in first-in-first-out queues, what a rank would see (a closed
// connection, silence, a refused call) waits with them, and the test decides what happens next. Ranks die, stop, wake,
// leave and are cut off from each other; the kernel's part (killing, refusing) is played truthfully.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "cluster/membership.h"
#include "cluster/monitor_tree.h"

namespace kolo::cluster {

class World;

class Peer final : public MembershipHost {
 public:
  Peer(World& world, Rank rank, const std::vector<int>& hosts)
      : world_(world), rank_(rank), membership_({rank, hosts, MonitorTree(hosts).neighbours(rank)}, *this) {}

  void send(Rank to, const Message& message) override;
  void lost(Rank rank, Condition /*condition*/, Rank /*heard_from*/) override {
    EXPECT_TRUE(lost_.insert(rank).second) << "rank " << rank << " is lost twice";
  }
  void fence(Rank rank) override;
  void probe(Rank rank) override;
  void changed() override;

  World& world_;
  Rank rank_;
  Membership membership_;
  std::set<Rank> lost_;
  bool dead_ = false;
  bool stopped_ = false;
  bool left_ = false;
  [[nodiscard]] bool runs() const { return !dead_ && !stopped_ && !left_; }
};

class World {
 public:
  explicit World(std::vector<int> hosts) : hosts_(std::move(hosts)), sides_(hosts_.size(), 0) {
    for (Rank rank = 0; rank < size(); ++rank) peers_.push_back(std::make_unique<Peer>(*this, rank, hosts_));
    const MonitorTree tree(hosts_);
    for (Rank rank = 0; rank < size(); ++rank) {
      for (const Rank neighbour : tree.neighbours(rank)) links_.insert({rank, neighbour});
    }
  }
  [[nodiscard]] int size() const { return static_cast<int>(hosts_.size()); }
  Peer& operator[](Rank rank) { return *peers_[static_cast<std::size_t>(rank)]; }

  // What happens to ranks.
  void kill(Rank rank) {
    (*this)[rank].dead_ = true;
    fall_silent(rank, [this, rank](Rank other) { return !reach(rank, other); });
    for (const auto& [a, b] : links_) {
      if (b != rank) continue;
      const bool same_host = host(a) == host(b);
      see(rank, a, [this, a, rank, same_host] {
        (*this)[a].membership_.observe(rank, same_host ? Condition::dead : Condition::unreachable);
      });
    }
  }
  void leave(Rank rank) {
    (*this)[rank].left_ = true;
    fall_silent(rank, [this, rank](Rank other) { return !reach(rank, other); });
    for (const auto& [a, b] : links_) {
      if (b == rank) see(rank, a, [this, a, rank] { (*this)[a].membership_.observe(rank, Condition::left); });
    }
  }
  void stop(Rank rank) {
    (*this)[rank].stopped_ = true;
    notice_silence();
    fall_silent(rank, [](Rank) { return true; });
  }
  void wake(Rank rank) {
    (*this)[rank].stopped_ = false;
    (*this)[rank].membership_.doubt();  // by its own clock
  }
  // Ranks whose `sides` differ cannot reach each other.
  void cut(std::vector<int> sides) {
    sides_ = std::move(sides);
    notice_silence();
    for (Rank rank = 0; rank < size(); ++rank) {
      fall_silent(rank, [this, rank](Rank other) { return !reach(rank, other); });
    }
  }
  // `a` gives up on `b`, rightly or not.
  void suspect(Rank a, Rank b) {
    notice_silence();
    if ((*this)[a].runs()) (*this)[a].membership_.observe(b, Condition::unresponsive);
  }

  // What waits: messages, and events as they would be seen.
  [[nodiscard]] std::vector<std::pair<Rank, Rank>> deliverable() const {
    std::vector<std::pair<Rank, Rank>> all;
    for (const auto& [way, queue] : queues_) {
      if (!queue.empty() && (reach(way.first, way.second) || !queue.front().from_far)) {
        if (peer(way.second).runs()) all.push_back(way);
      }
    }
    return all;
  }
  void deliver(std::pair<Rank, Rank> way) {
    auto& queue = queues_[way];
    const auto event = std::move(queue.front());
    queue.pop_front();
    event.happen();
  }
  void settle() {
    for (auto ways = deliverable(); !ways.empty(); ways = deliverable()) deliver(ways.front());
  }

  [[nodiscard]] bool reach(Rank a, Rank b) const {
    return sides_[static_cast<std::size_t>(a)] == sides_[static_cast<std::size_t>(b)];
  }
  [[nodiscard]] int host(Rank rank) const { return hosts_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] bool linked(Rank a, Rank b) const { return links_.contains({a, b}); }
  void link(Rank a, Rank b) {
    links_.insert({a, b});
    links_.insert({b, a});
  }
  // Happens at `to`, after everything that `from` has sent it.
  void see(Rank from, Rank to, std::function<void()> happen) {
    queues_[{from, to}].push_back({true, std::move(happen)});
  }
  // Happens at `at` by itself.
  void meet(Rank at, std::function<void()> happen) { queues_[{at, at}].push_back({false, std::move(happen)}); }

  [[nodiscard]] std::string picture() {
    static constexpr const char* kFates[] = {"whole", "agreeing", "agreed", "cut off", "excluded"};
    std::string text;
    for (Rank rank = 0; rank < size(); ++rank) {
      auto& each = (*this)[rank];
      text += "\nrank " + std::to_string(rank) + " on host " + std::to_string(host(rank)) + " side " +
              std::to_string(sides_[static_cast<std::size_t>(rank)]) + (each.dead_ ? " dead" : "") +
              (each.stopped_ ? " stopped" : "") + (each.left_ ? " left" : "") + ", " +
              kFates[static_cast<std::size_t>(each.membership_.fate())] + ", knows";
      for (Rank other = 0; other < size(); ++other) {
        text += ' ' + std::to_string(static_cast<int>(each.membership_.condition(other)));
      }
    }
    return text;
  }

  // Lists that somebody has taken for agreed.
  std::set<std::vector<Rank>> agreed_;

 private:
  struct Event {
    bool from_far;
    std::function<void()> happen;
  };
  [[nodiscard]] const Peer& peer(Rank rank) const { return *peers_[static_cast<std::size_t>(rank)]; }
  // Long before anybody is given up for his silence all others have noticed it, or that they were away.
  void notice_silence() {
    for (const auto& each : peers_) {
      if (each->runs()) each->membership_.doubt();
    }
  }
  template <class Whom>
  void fall_silent(Rank rank, Whom whom) {
    for (const auto& [a, b] : links_) {
      if (b != rank || !whom(a)) continue;
      meet(a, [this, a, rank] {
        const auto& silent = (*this)[rank];
        if (silent.stopped_ || !reach(a, rank)) (*this)[a].membership_.observe(rank, Condition::unresponsive);
      });
    }
  }

  std::vector<int> hosts_;
  std::vector<int> sides_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::set<std::pair<Rank, Rank>> links_;
  std::map<std::pair<Rank, Rank>, std::deque<Event>> queues_;
};

inline void Peer::send(Rank to, const Message& message) {
  ASSERT_NE(to, rank_);
  const Rank from = rank_;
  World& world = world_;
  if (!world.linked(from, to)) {
    if (membership_.gone(to)) return;
    if (!world.reach(from, to) || world[to].stopped_) {
      world.meet(from, [&world, from, to] { world[from].membership_.observe(to, Condition::unreachable); });
      return;
    }
    if (world[to].dead_ || world[to].left_) {
      world.meet(from, [&world, from, to] { world[from].membership_.refused(to); });
      return;
    }
    world.link(from, to);
  }
  const auto copy = decode(encode(message));
  ASSERT_TRUE(copy.has_value() && *copy == message);
  world.see(from, to, [&world, from, to, message] { world[to].membership_.receive(from, message); });
}

inline void Peer::fence(Rank rank) {
  World& world = world_;
  ASSERT_EQ(world.host(rank), world.host(rank_));
  const Rank self = rank_;
  world.meet(self, [&world, self, rank] {
    if (!world[rank].dead_) world.kill(rank);
    world[self].membership_.observe(rank, Condition::dead);
  });
}

inline void Peer::probe(Rank rank) {
  World& world = world_;
  const Rank self = rank_;
  world.meet(self, [&world, self, rank] {
    const bool gone = world[rank].dead_ || world[rank].left_;
    if (gone && world.reach(self, rank)) world[self].membership_.refused(rank);
    world[self].membership_.probed(rank);
  });
}

// Whenever a list is agreed on: what is left out, and could still write where members of the list are, is dead.
inline void Peer::changed() {
  if (membership_.agreement().epoch == 0 || membership_.fate() != Fate::agreed) return;
  const auto& members = membership_.agreement().members;
  world_.agreed_.insert(members);
  for (Rank rank = 0; rank < world_.size(); ++rank) {
    const auto& other = world_[rank];
    if (std::ranges::binary_search(members, rank) || other.dead_ || other.left_) continue;
    for (const Rank member : members) {
      EXPECT_NE(world_.host(member), world_.host(rank))
          << "rank " << rank << " lives beside rank " << member << ", which goes on without it";
    }
  }
}

}  // namespace kolo::cluster
