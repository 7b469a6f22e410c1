// Dissemination (Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", IJPP 1988): in round k every
// rank tells rank + 2^k what it knows, and hears from rank - 2^k. After ceil(log2 p) rounds everybody knows of
// everybody.
//
//   round 0   0 -> 1   1 -> 2   2 -> 3   3 -> 0      each knows of 2 ranks
//   round 1   0 -> 2   1 -> 3   2 -> 0   3 -> 1      each knows of 4 ranks
//
// Knowledge may arrive twice where p is no power of two; an OR does not mind.
#include "collectives/dissemination.h"

#include <algorithm>

#include "collectives/expected_message.h"
#include "collectives/network.h"

namespace kolo::collectives {

Dissemination::Dissemination(transport::Transport& transport, transport::Tag tag, std::span<std::uint64_t> words)
    : transport_(transport), tag_(tag), words_(words), in_(words.size()) {}

void Dissemination::begin_round() {
  const int size = transport_.size();
  const Rank to = (transport_.rank() + distance_) % size;
  const Rank from = (transport_.rank() + size - distance_) % size;
  out_.assign(words_.begin(), words_.end());
  receive_ = transport_.receive(from, tag_, std::as_writable_bytes(std::span(in_)));
  send_ = transport_.send(to, tag_, std::as_bytes(std::span(out_)));
  begun_ = true;
}

bool Dissemination::advance() {
  while (distance_ < transport_.size()) {
    if (!begun_) begin_round();
    const Rank from = (transport_.rank() + transport_.size() - distance_) % transport_.size();
    if (receive_ != nullptr && has_come(*receive_, in_.size() * sizeof(std::uint64_t), from)) receive_.reset();
    if (send_ != nullptr && send_->test()) send_.reset();
    if (receive_ != nullptr || send_ != nullptr) return false;
    std::transform(words_.begin(), words_.end(), in_.begin(), words_.begin(),
                   [](std::uint64_t a, std::uint64_t b) { return a | b; });
    distance_ *= 2;
    begun_ = false;
  }
  return true;
}

std::vector<Rank> Dissemination::waiting_for() const {
  const int size = transport_.size();
  if (distance_ >= size) return {};
  if (receive_ != nullptr) return {(transport_.rank() + size - distance_) % size};
  return {(transport_.rank() + distance_) % size};
}

namespace {

// Dissemination of nothing.
class DisseminationBarrier final : public Machine {
 public:
  explicit DisseminationBarrier(const NetworkParts& parts)
      : Machine(parts.group), rounds_(*parts.group->transport, parts.tag, {}) {}
  [[nodiscard]] std::vector<Rank> waiting_for() const override { return rounds_.waiting_for(); }

 private:
  bool step() override { return rounds_.advance(); }
  Dissemination rounds_;
};

}  // namespace

std::unique_ptr<Operation> start_dissemination_barrier(const NetworkParts& parts) {
  return std::make_unique<DisseminationBarrier>(parts);
}

}  // namespace kolo::collectives
