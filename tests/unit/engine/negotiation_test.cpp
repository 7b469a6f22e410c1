// All ranks' negotiations in one thread: messages wait in first-in-first-out links, and a seed decides what moves next.
#include "engine/negotiation.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <set>

#include "engine/codec.h"
#include "unit/engine/entries.h"

namespace kolo::engine {
namespace {

using testing::ElementsAre;

// One rank: what it has pending, and all that it was told.
class Peer final : public NegotiationHost {
 public:
  Peer(Tree tree, std::size_t fusion_bytes) : negotiation_(tree, fusion_bytes, *this), links_(tree.size) {}

  void submit(const std::string& name, std::int64_t size = 4) {
    pending_.insert(name);
    ++submitted_;
    negotiation_.submit(entry(name, negotiation_.tree().rank, size));
  }
  void cancel(const std::string& name) {
    cancelled_.insert(name);
    negotiation_.cancel(name);
  }
  // Links are first in, first out; messages cross them as bytes.
  void send(Rank to, const Envelope& envelope) override {
    links_[static_cast<std::size_t>(to)].push_back(encode(envelope));
    ++sent_;
  }
  void execute(const Item& item, std::uint32_t /*depth*/) override {
    std::string text = (item.conflict ? "mismatch " : "run ") + std::to_string(item.sequence) + ":";
    for (const auto& name : item.names) {
      text += ' ' + name;
      answer(name);
    }
    history_.push_back(text);
  }
  void withdrawn(const Withdrawal& withdrawal) override {
    history_.push_back("withdrawn " + withdrawal.name);
    EXPECT_TRUE(!is_asked_for_ || is_asked_for_(withdrawal.name)) << withdrawal.name;
    last_missing_ = withdrawal.missing;
    if (pending_.contains(withdrawal.name)) answer(withdrawal.name);
  }
  void failed(const Fatal& failure) override {
    history_.push_back("failed " + failure.text);
    answer_all();
  }
  void ended(const Fatal& fatal) override {
    cut_ = fatal.sequence;
    answer_all();
  }

  Negotiation negotiation_;
  std::vector<std::deque<std::vector<std::byte>>> links_;  // by receiver
  std::set<std::string> pending_;
  std::set<std::string> cancelled_;                            // of those pending
  std::function<bool(const std::string& name)> is_asked_for_;  // at the root: whether somebody still waits for this
  std::vector<std::string> history_;                           // the same on all ranks
  std::vector<Rank> last_missing_;
  std::size_t submitted_ = 0;
  std::size_t answered_ = 0;
  std::size_t sent_ = 0;
  std::uint64_t cut_ = 0;

 private:
  void answer(const std::string& name) {
    EXPECT_EQ(pending_.erase(name), 1U) << "an answer to '" << name << "', which is not pending";
    cancelled_.erase(name);
    ++answered_;
  }
  void answer_all() {
    answered_ += pending_.size();
    pending_.clear();
    cancelled_.clear();
  }
};

class World {
 public:
  explicit World(int size, std::size_t fusion_bytes = 64) {
    for (int rank = 0; rank < size; ++rank) peers_.push_back(std::make_unique<Peer>(Tree{rank, size}, fusion_bytes));
    peers_[0]->is_asked_for_ = [this](const std::string& name) {
      return std::any_of(peers_.begin(), peers_.end(), [&](const auto& peer) {
        return peer->cancelled_.contains(name) || peer->negotiation_.has_ended();
      });
    };
  }
  Peer& operator[](Rank rank) { return *peers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int size() const { return static_cast<int>(peers_.size()); }
  // The oldest message of one link.
  bool deliver(Rank from, Rank to) {
    auto& link = (*this)[from].links_[static_cast<std::size_t>(to)];
    if (link.empty()) return false;
    auto envelope = decode(link.front());
    link.pop_front();
    (*this)[to].negotiation_.receive(from, std::move(envelope));
    return true;
  }
  bool relay(Rank rank) {
    auto& negotiation = (*this)[rank].negotiation_;
    return !negotiation.has_ended() && negotiation.relay();
  }
  void settle() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < size(); ++rank) {
        moved |= relay(rank);
        for (int to = 0; to < size(); ++to) moved |= deliver(rank, to);
      }
    }
  }

 private:
  std::vector<std::unique_ptr<Peer>> peers_;
};

TEST(Negotiation, AnOperationCostsOneMessageUpAndOneDownEachLink) {
  World world(7);
  for (int rank = 0; rank < 7; ++rank) world[rank].submit("a");
  world.settle();
  std::size_t sent = 0;
  for (int rank = 0; rank < 7; ++rank) {
    EXPECT_THAT(world[rank].history_, ElementsAre("run 0: a"));
    sent += world[rank].sent_;
  }
  EXPECT_EQ(sent, 12U);
}

TEST(Negotiation, AWithdrawalNamesTheMissingOnEveryRankAndFreesTheName) {
  World world(7);
  for (const int rank : {0, 1, 2, 3, 5}) world[rank].submit("a");  // 4 is below 1, 6 below 2
  world.settle();
  for (const int rank : {1, 2}) world[rank].negotiation_.report("a");
  world.settle();
  EXPECT_THAT(world[0].negotiation_.missing("a"), ElementsAre(4, 6));
  world[3].cancel("a");
  world.settle();
  for (int rank = 0; rank < 7; ++rank) {
    EXPECT_THAT(world[rank].history_, ElementsAre("withdrawn a")) << rank;
    EXPECT_THAT(world[rank].last_missing_, ElementsAre(4, 6)) << rank;
    EXPECT_TRUE(world[rank].pending_.empty());
  }
  for (int rank = 0; rank < 7; ++rank) world[rank].submit("a");
  world.settle();
  for (int rank = 0; rank < 7; ++rank) EXPECT_EQ(world[rank].history_.back(), "run 0: a");
}

TEST(Negotiation, ACancelThatCrossesWithTheListIsNotAnswered) {
  World world(3);
  for (int rank = 0; rank < 3; ++rank) world[rank].submit("a");
  for (const int rank : {1, 2}) {
    world.relay(rank);
    world.deliver(rank, 0);
  }
  world.relay(0);  // listed: the list is on its way
  world[1].cancel("a");
  world.deliver(0, 1);
  world[1].submit("a");  // again, before the root sees the cancel
  world.settle();
  for (const int rank : {0, 2}) world[rank].submit("a");
  world.settle();
  for (int rank = 0; rank < 3; ++rank) EXPECT_THAT(world[rank].history_, ElementsAre("run 0: a", "run 1: a"));
}

TEST(Negotiation, TheSecondCancelOfOneSubmissionDoesNotConcernTheNext) {
  World world(4);  // 3 is below 1, which does not submit
  for (const int rank : {0, 2, 3}) world[rank].submit("a");
  world.relay(3);
  world.deliver(3, 1);
  world[3].cancel("a");
  world.deliver(3, 1);  // held back by 1, and on its way to the root
  world[0].cancel("a");
  world[0].submit("a");
  world.settle();
  for (int rank = 1; rank < 4; ++rank) world[rank].submit("a");
  world.settle();
  for (int rank = 0; rank < 4; ++rank) EXPECT_THAT(world[rank].history_, ElementsAre("withdrawn a", "run 0: a"));
}

TEST(Negotiation, AnEntrySentBeforeAWithdrawalIsDropped) {
  World world(3);
  world[1].submit("a");
  world[1].cancel("a");  // held back: nothing has been relayed
  world.deliver(1, 0);   // the withdrawal is on its way to 2 ...
  world[2].submit("a");
  world.relay(2);  // ... and crosses with its entry
  world.settle();
  EXPECT_TRUE(world[2].pending_.empty());
  for (const int rank : {0, 1}) world[rank].submit("a");
  world.settle();
  EXPECT_THAT(world[0].history_, ElementsAre("withdrawn a"));  // 2 has not submitted it since
  world[2].submit("a");
  world.settle();
  for (int rank = 0; rank < 3; ++rank) EXPECT_THAT(world[rank].history_, ElementsAre("withdrawn a", "run 0: a"));
}

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
std::vector<std::string> common_history(const Peer& peer) {
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
void expect_that_the_next_operation_works(World& world) {
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

TEST(Negotiation, AgreesAndLosesNothingInAnyInterleaving) {
  for (std::uint32_t seed = 0; seed < 10000; ++seed) {
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
}

}  // namespace
}  // namespace kolo::engine
