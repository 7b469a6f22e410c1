#include "engine/matcher.h"

#include <gmock/gmock.h>

#include <deque>
#include <numeric>
#include <random>

#include "engine/ready_list.h"

namespace kolo::engine {
namespace {

using testing::ElementsAre;

Entry entry(const std::string& name, Rank rank, std::int64_t size = 4) {
  Entry result;
  result.name = name;
  result.rank = rank;
  result.signature.sizes = {size};
  return result;
}

TEST(Tree, EveryRankHasOneParentAndTheDepthIsLogarithmic) {
  for (int size = 1; size <= 40; ++size) {
    std::vector<int> parents(static_cast<std::size_t>(size), 0);
    for (int rank = 0; rank < size; ++rank) {
      for (const Rank child : Tree{rank, size}.children()) {
        EXPECT_EQ((Tree{child, size}.parent()), rank);
        ++parents[static_cast<std::size_t>(child)];
      }
    }
    EXPECT_EQ(parents[0], 0);
    EXPECT_EQ(std::accumulate(parents.begin(), parents.end(), 0), size - 1);
  }
  EXPECT_THAT((Tree{0, 6}.subtree(1)), ElementsAre(1, 3, 4));
}

TEST(Matcher, IsReadyOnlyWhenThisRankAndBothSubtreesHaveSubmitted) {
  Matcher matcher(Tree{0, 3});
  matcher.add_from_child(1, entry("a", 1));
  EXPECT_THAT(matcher.take_ready(), testing::IsEmpty());
  matcher.add_own(entry("a", 0));
  EXPECT_THAT(matcher.missing("a"), ElementsAre(2));
  EXPECT_THAT(matcher.take_ready(), testing::IsEmpty());
  matcher.add_from_child(2, entry("a", 2));
  const auto ready = matcher.take_ready();
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_FALSE(ready[0].conflict);
  EXPECT_TRUE(matcher.empty());
}

TEST(Matcher, ReportsTheFirstDisagreementWithBothRanks) {
  Matcher matcher(Tree{0, 3});
  matcher.add_own(entry("a", 0, 4));
  matcher.add_from_child(1, entry("a", 1, 4));
  matcher.add_from_child(2, entry("a", 2, 5));
  const auto ready = matcher.take_ready();
  ASSERT_EQ(ready.size(), 1U);
  ASSERT_TRUE(ready[0].conflict);
  EXPECT_EQ(ready[0].conflict->second_rank, 2);
}

TEST(Matcher, KeepsTheOrderInWhichThisRankSubmitted) {
  Matcher matcher(Tree{0, 2});
  for (const auto* name : {"b", "a", "c"}) matcher.add_own(entry(name, 0));
  for (const auto* name : {"c", "a", "b"}) matcher.add_from_child(1, entry(name, 1));
  std::vector<std::string> names;
  for (const auto& ready : matcher.take_ready()) names.push_back(ready.name);
  EXPECT_THAT(names, ElementsAre("b", "a", "c"));
}

TEST(Matcher, ForgetsNamedOperationsButNotGradientRounds) {
  Matcher matcher(Tree{0, 2});
  auto round = entry("gradients/0", 1);
  round.signature.kind = Kind::gradient_round;
  matcher.add_from_child(1, round);
  matcher.add_from_child(1, entry("metric", 1));
  matcher.forget_named();
  round.rank = 0;
  matcher.add_own(round);
  matcher.add_own(entry("metric", 0));
  const auto ready = matcher.take_ready();
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0].name, "gradients/0");
}

// All ranks of a world in one thread: messages wait in queues, and a seed decides what moves next.
class World {
 public:
  World(int size, std::uint32_t seed) : random_(seed) {
    for (int rank = 0; rank < size; ++rank) matchers_.emplace_back(Tree{rank, size});
    up_.resize(static_cast<std::size_t>(size));
    down_.resize(static_cast<std::size_t>(size));
    executed_.resize(static_cast<std::size_t>(size));
  }
  void submit(Rank rank, Entry value) { matchers_[index(rank)].add_own(std::move(value)); }
  // One move of one rank; false when that rank has nothing to do.
  bool move(Rank rank) {
    bool moved = receive(rank);
    auto ready = matchers_[index(rank)].take_ready();
    if (ready.empty()) return moved;
    if (rank != 0) {
      for (auto& value : ready) up_[index(rank)].push_back(std::move(value));
    } else {
      deliver(0, make_ready_list(ready, 64, size(), sequence_));
      sequence_ += ready.size();
    }
    return true;
  }
  [[nodiscard]] int size() const { return static_cast<int>(matchers_.size()); }
  [[nodiscard]] const std::vector<std::string>& executed(Rank rank) const { return executed_[index(rank)]; }

 private:
  static std::size_t index(Rank rank) { return static_cast<std::size_t>(rank); }
  bool receive(Rank rank) {
    bool moved = false;
    for (const Rank child : Tree{rank, size()}.children()) {
      auto& queue = up_[index(child)];
      if (queue.empty() || random_() % 2 == 0) continue;
      matchers_[index(rank)].add_from_child(child, std::move(queue.front()));
      queue.pop_front();
      moved = true;
    }
    auto& lists = down_[index(rank)];
    if (!lists.empty()) {
      auto list = std::move(lists.front());
      lists.pop_front();
      deliver(rank, list);
      moved = true;
    }
    return moved;
  }
  void deliver(Rank rank, const std::vector<Item>& items) {
    for (const auto& item : items) {
      std::string text = item.conflict ? "mismatch:" : "run:";
      for (const auto& name : item.names) text += name + ",";
      executed_[index(rank)].push_back(text);
    }
    for (const Rank child : Tree{rank, size()}.children()) down_[index(child)].push_back(items);
  }

  std::mt19937 random_;
  std::vector<Matcher> matchers_;
  std::vector<std::deque<Entry>> up_;                // to the parent
  std::vector<std::deque<std::vector<Item>>> down_;  // from the parent
  std::vector<std::vector<std::string>> executed_;
  std::uint64_t sequence_ = 0;
};

std::size_t count_names(const std::vector<std::string>& executed) {
  std::size_t names = 0;
  for (const auto& text : executed) names += static_cast<std::size_t>(std::count(text.begin(), text.end(), ','));
  return names;
}

// For any interleaving all ranks execute the same sequence, and nothing that was submitted is lost.
TEST(Matching, AgreesForAnyInterleaving) {
  for (std::uint32_t seed = 0; seed < 10000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const int size = 2 + static_cast<int>(random() % 7);
    const int names = 1 + static_cast<int>(random() % 6);
    const int odd_rank = static_cast<int>(random() % static_cast<unsigned>(size));
    const int odd_name = static_cast<int>(random() % 12);  // often none
    World world(size, seed);
    std::vector<std::vector<int>> waiting(static_cast<std::size_t>(size));
    for (auto& order : waiting) {
      order.resize(static_cast<std::size_t>(names));
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
    }
    for (int quiet = 0; quiet < 40 * size;) {
      const int rank = static_cast<int>(random() % static_cast<unsigned>(size));
      auto& order = waiting[static_cast<std::size_t>(rank)];
      bool moved = false;
      if (!order.empty() && random() % 3 == 0) {
        const int name = order.back();
        order.pop_back();
        world.submit(rank, entry("t" + std::to_string(name), rank, rank == odd_rank && name == odd_name ? 5 : 4));
        moved = true;
      }
      quiet = world.move(rank) || moved ? 0 : quiet + 1;
    }
    for (int rank = 0; rank < size; ++rank) {
      ASSERT_EQ(world.executed(rank), world.executed(0)) << "rank " << rank;
    }
    ASSERT_EQ(count_names(world.executed(0)), static_cast<std::size_t>(names));
  }
}

}  // namespace
}  // namespace kolo::engine
