#pragma once
// The two synchronisations of one operation on a registered buffer: everybody has arrived, everybody is done.
#include <algorithm>
#include <span>
#include <vector>

#include "base/cache_line.h"
#include "collectives/direct_allreduce.h"

namespace kolo::collectives {

// Ranks are local ranks. In this order: arrive(), all_arrived() until true, combine(), depart(), all_done() until true.
// Operations on one buffer do so one after another, on all ranks in the same order.
class DirectMeeting {
 public:
  DirectMeeting(DirectBuffer& buffer, Rank rank) : buffer_(buffer), rank_(static_cast<std::size_t>(rank)) {}

  // This rank's data and `flags` may be read by all from now on.
  void arrive(std::span<const std::uint64_t> flags) {
    sequence_ = ++buffer_.started;
    DirectControl& mine = *buffer_.control[rank_];
    std::copy(flags.begin(), flags.end(), mine.flags);
    mine.arrived.store(sequence_, std::memory_order_release);
  }
  [[nodiscard]] bool all_arrived() { return everybody(&DirectControl::arrived); }

  // Leaves the OR of all ranks' words in `flags`. REQUIRES: all have arrived.
  void combine(std::span<std::uint64_t> flags) {
    for (std::size_t w = 0; w < flags.size(); ++w) {
      std::uint64_t all = 0;
      for (const DirectControl* control : buffer_.control) all |= control->flags[w];
      flags[w] = all;
    }
    here_ = 0;
    base::own_line(&buffer_.control[rank_]->done);  // nobody looks at it before this rank's part is done
  }

  // This rank has read all that it reads and written all that it writes.
  void depart() {
    departed_ = true;
    buffer_.control[rank_]->done.store(sequence_, std::memory_order_release);
    base::own_line(&buffer_.control[rank_]->arrived);  // everybody has seen it
  }
  [[nodiscard]] bool all_done() { return everybody(&DirectControl::done); }

  // Who keeps this rank waiting.
  [[nodiscard]] std::vector<Rank> missing() const {
    std::vector<Rank> ranks;
    for (std::size_t r = 0; r < buffer_.control.size(); ++r) {
      const auto& counter = departed_ ? buffer_.control[r]->done : buffer_.control[r]->arrived;
      if (counter.load(std::memory_order_acquire) < sequence_) ranks.push_back(static_cast<Rank>(r));
    }
    return ranks;
  }

 private:
  bool everybody(std::atomic<std::uint64_t> DirectControl::*counter) {
    const std::size_t size = buffer_.control.size();
    while (here_ < size && (buffer_.control[here_]->*counter).load(std::memory_order_acquire) >= sequence_) ++here_;
    return here_ == size;
  }

  DirectBuffer& buffer_;
  std::size_t rank_;
  std::uint64_t sequence_ = 0;
  std::size_t here_ = 0;  // ranks below this one have been seen at this synchronisation
  bool departed_ = false;
};

}  // namespace kolo::collectives
