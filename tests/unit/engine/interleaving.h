#pragma once
// Random interleavings of the named channel, one a seed: what is submitted, cancelled, reported, failed and left, and
// which message moves when.
#include <gmock/gmock.h>

#include <random>
#include <string>
#include <vector>

#include "unit/engine/negotiation_world.h"

namespace kolo::engine {

// One seed's world: up to 40 random acts, with messages moving at random in between.
class Chaos {
 public:
  explicit Chaos(std::uint32_t seed)
      : random_(seed), world_(2 + static_cast<int>(random_() % 7), 16 * (random_() % 5)) {
    may_leave_ = random_() % 4 == 0;
  }
  World& run() {
    const int acts = 5 + below(36);
    for (int i = 0; i < acts; ++i) {
      act(below(world_.size()));
      for (int moves = below(6); moves > 0; --moves) move();
    }
    return world_;
  }
  [[nodiscard]] Rank leaver() const { return leaver_; }

 private:
  int below(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }
  void move() {
    const int from = below(world_.size());
    if (below(3) == 0) {
      world_.relay(from);
    } else {
      world_.deliver(from, below(world_.size()));
    }
  }
  void act(Rank rank) {
    auto& peer = world_[rank];
    auto& negotiation = peer.negotiation_;
    if (negotiation.has_ended()) return;
    const auto name = "t" + std::to_string(below(4));
    const int what = below(40);
    if (what < 30) {
      if (!peer.pending_.contains(name)) peer.submit(name, below(20) == 0 ? 5 : 4);
    } else if (what < 34) {
      if (peer.pending_.contains(name)) peer.cancel(name);
    } else if (what < 36) {
      negotiation.report(name);
    } else if (what < 38) {
      negotiation.fail({FatalKind::failed, {rank}, "by " + std::to_string(rank), 0, {}});
    } else if (may_leave_ && leaver_ < 0) {
      leaver_ = rank;
      negotiation.end({FatalKind::peer_left, {rank}, "left", negotiation.next_sequence(), {}}, rank);
    }
  }

  std::mt19937 random_;
  World world_;
  bool may_leave_ = false;
  Rank leaver_ = -1;
};

// Without the items that the leaver has not seen: these fail where they were begun.
inline std::vector<std::string> common_history(const Peer& peer) {
  std::vector<std::string> history;
  for (const auto& text : peer.history_) {
    const auto digits = text.find_first_of("0123456789");
    const bool item = text.starts_with("run ") || text.starts_with("mismatch ");
    if (item && peer.negotiation_.has_ended() && std::stoull(text.substr(digits)) >= peer.cut_) break;
    history.push_back(text);
  }
  return history;
}

// Afterwards a correct operation works on all ranks, whatever was submitted, withdrawn or failed before.
inline void expect_that_the_next_operation_works(World& world) {
  for (int rank = 0; rank < world.size(); ++rank) {
    const auto pending = world[rank].pending_;
    for (const auto& name : pending) world[rank].cancel(name);
  }
  world.settle();
  for (int rank = 0; rank < world.size(); ++rank) {
    ASSERT_TRUE(world[rank].pending_.empty()) << "unanswered on rank " << rank << ": " << *world[rank].pending_.begin();
    world[rank].submit("t0");
  }
  world.settle();
  for (int rank = 0; rank < world.size(); ++rank) {
    ASSERT_TRUE(world[rank].history_.back().starts_with("run ") && world[rank].history_.back().ends_with(": t0"));
  }
}

// All ranks have the same history, nothing stays unanswered, and what comes next works.
inline void check_interleaving(std::uint32_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Chaos chaos(seed);
  auto& world = chaos.run();
  world.settle();
  if (chaos.leaver() < 0) {
    ASSERT_NO_FATAL_FAILURE(expect_that_the_next_operation_works(world));
    for (int rank = 0; rank < world.size(); ++rank) ASSERT_EQ(world[rank].history_, world[0].history_) << rank;
  } else {
    const auto left = common_history(world[chaos.leaver()]);
    for (int rank = 0; rank < world.size(); ++rank) {
      auto history = common_history(world[rank]);
      ASSERT_TRUE(world[rank].negotiation_.has_ended());
      ASSERT_GE(history.size(), left.size()) << rank;
      history.resize(left.size());
      ASSERT_EQ(history, left) << rank;
    }
  }
  for (int rank = 0; rank < world.size(); ++rank) ASSERT_EQ(world[rank].answered_, world[rank].submitted_) << rank;
}

}  // namespace kolo::engine
