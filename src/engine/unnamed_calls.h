#pragma once
// Operations that the program submits without a name. The n-th one of each rank is matched with the n-th one of the
// others: it is submitted as "kolo/unnamed/<n>".
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "engine/work_state.h"
#include "kolo/spi/engine.h"

namespace kolo::engine {

// Thread-safe.
class UnnamedCalls {
 public:
  // At most so many are in flight: the next one waits for the oldest, whose memory it uses again.
  static constexpr std::size_t kInFlight = 8;

  // Names `request` and submits it by `submit`. Throws UsageError from a second thread and after disable(), and what
  // the wait for the oldest operation throws on a timeout.
  using Submit = std::function<std::shared_ptr<WorkState>(Request)>;
  std::shared_ptr<WorkState> submit(Request request, const Submit& submit);
  // After an error of one rank alone: ranks may have made different numbers of calls.
  void disable() noexcept { disabled_.store(true); }

 private:
  void require_one_thread();

  std::mutex mutex_;                       // guards thread_
  std::optional<std::thread::id> thread_;  // the first that called; only this one uses what follows
  std::uint64_t submitted_ = 0;
  std::array<std::weak_ptr<WorkState>, kInFlight> works_;  // expired: complete, and its result is not in use
  std::atomic<bool> disabled_{false};
};

// The name under which the memory of an operation's result is kept: its own, or one of UnnamedCalls::kInFlight.
[[nodiscard]] std::string memory_name_of(const std::string& name);

}  // namespace kolo::engine
