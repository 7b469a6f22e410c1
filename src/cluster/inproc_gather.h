#pragma once
// The meeting point of ranks that are threads: everybody puts a value in and takes everybody's out.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/strings.h"
#include "kolo/error.h"

namespace kolo::cluster {

// Collective calls in the same order from `ranks` threads, one a rank. Thread-safe; shared by the ranks' objects.
template <class T>
class InprocGather {
 public:
  using Values = std::vector<T>;
  explicit InprocGather(int ranks)
      : values_(static_cast<std::size_t>(ranks)), left_(static_cast<std::size_t>(ranks), false) {}

  // Everybody's value, by rank. Throws TimeoutError naming who did not come, and PeerLostError for one who never will.
  // `mine` is then taken back, so that a later call starts afresh. `while_waiting` is called now and then, and may
  // throw.
  std::shared_ptr<const Values> gather(Rank rank, T mine, std::chrono::milliseconds timeout, const std::string& what,
                                       const std::function<void()>& while_waiting = {}) {
    std::unique_lock lock(mutex_);
    slot(rank) = std::move(mine);
    if (++arrived_ == values_.size()) return complete();
    const auto round = round_;
    const base::Deadline deadline(timeout);
    while (round == round_) {
      if (const auto gone = first_lost()) {
        take_back(rank);
        throw PeerLostError(*gone, what + ": rank " + std::to_string(*gone) + " has shut down its Context");
      }
      if (deadline.passed()) {
        const auto missing = missing_ranks();
        take_back(rank);
        throw TimeoutError(missing, what + ": timeout after " + std::to_string(timeout.count()) + " ms: waiting for " +
                                        base::ranks_text(missing));
      }
      if (!while_waiting) {
        changed_.wait_for(lock, deadline.left());
        continue;
      }
      changed_.wait_for(lock, std::min<std::chrono::nanoseconds>(deadline.left(), kSlice));
      call(while_waiting, rank, lock);
    }
    auto all = last_;
    if (--takers_ == 0) last_.reset();
    return all;
  }

  // This rank will not come again; whoever waits for it is told.
  void leave(Rank rank) noexcept {
    const std::lock_guard lock(mutex_);
    left_[static_cast<std::size_t>(rank)] = true;
    changed_.notify_all();
  }

 private:
  static constexpr std::chrono::milliseconds kSlice{2};

  void call(const std::function<void()>& while_waiting, Rank rank, std::unique_lock<std::mutex>& lock) {
    const auto round = round_;
    lock.unlock();
    try {
      while_waiting();
    } catch (...) {
      lock.lock();
      if (round == round_) take_back(rank);
      throw;
    }
    lock.lock();
  }

  std::optional<T>& slot(Rank rank) { return values_[static_cast<std::size_t>(rank)]; }

  std::shared_ptr<const Values> complete() {
    auto all = std::make_shared<Values>();
    for (auto& value : values_) {
      all->push_back(std::move(*value));
      value.reset();
    }
    takers_ = values_.size() - 1;
    if (takers_ > 0) last_ = all;
    arrived_ = 0;
    ++round_;
    changed_.notify_all();
    return all;
  }

  void take_back(Rank rank) {
    slot(rank).reset();
    --arrived_;
  }

  [[nodiscard]] std::optional<Rank> first_lost() const {
    for (std::size_t r = 0; r < values_.size(); ++r) {
      if (left_[r] && !values_[r]) return static_cast<Rank>(r);
    }
    return std::nullopt;
  }

  [[nodiscard]] std::vector<Rank> missing_ranks() const {
    std::vector<Rank> missing;
    for (std::size_t r = 0; r < values_.size(); ++r) {
      if (!values_[r]) missing.push_back(static_cast<Rank>(r));
    }
    return missing;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<T>> values_;
  std::vector<bool> left_;
  std::size_t arrived_ = 0;
  std::uint64_t round_ = 0;
  // The result of the last complete round, until everybody has taken it; the next round cannot complete before.
  std::shared_ptr<const Values> last_;
  std::size_t takers_ = 0;
};

}  // namespace kolo::cluster
