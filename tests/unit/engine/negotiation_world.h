#pragma once
// All ranks' negotiations in one thread: messages wait in first-in-first-out links, and the test decides what moves
// next.
#include <gmock/gmock.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/codec.h"
#include "engine/negotiation.h"
#include "unit/engine/entries.h"

namespace kolo::engine {

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
  void heard_by_all(std::uint64_t epoch) override {
    history_.push_back("heard " + std::to_string(epoch));
    if (when_heard_) when_heard_(epoch);
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
  std::function<void(std::uint64_t epoch)> when_heard_;
  std::vector<std::string> history_;  // the same on all ranks
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
    for (const auto& peer : peers_) {
      peer->when_heard_ = [this](std::uint64_t epoch) {
        for (const auto& each : peers_) EXPECT_GE(each->negotiation_.epoch(), epoch);
      };
    }
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

}  // namespace kolo::engine
