#include "torch/stop_signals.h"

#include <signal.h>
#include <time.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <mutex>

#include "kolo/error.h"

namespace kolo {
namespace {

constexpr std::array<int, 4> kSignals = {SIGTERM, SIGUSR1, SIGUSR2, SIGINT};

constexpr std::size_t kObjects = 256;

// What the handler uses. It has no other argument than the signal, so this belongs to the process.
struct Listener {
  std::atomic<RoundNotices*> notices{nullptr};  // null: a free place
  std::atomic<RoundNotices::Bits> bit{0};
};
struct State {
  std::array<Listener, kObjects> listeners;
  std::atomic<std::int64_t> first_ns{0};  // when the first signal came; 0: none has come
  std::atomic<bool> interrupted{false};   // a SIGINT has come
  std::array<struct sigaction, kSignals.size()> before{};
  std::mutex lock;  // of constructors and destructors
  std::size_t objects = 0;
};
State state;

std::int64_t now_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

const struct sigaction& before(int signal) noexcept {
  std::size_t index = 0;
  while (kSignals[index] != signal) ++index;
  return state.before[index];
}

bool has_handler(const struct sigaction& action) noexcept {
  return (action.sa_flags & SA_SIGINFO) != 0 || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

// Calls only functions that are async-signal-safe.
void handle(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  for (Listener& each : state.listeners) {
    if (RoundNotices* const notices = each.notices.load(); notices != nullptr) notices->raise(each.bit.load());
  }
  std::int64_t none = 0;
  state.first_ns.compare_exchange_strong(none, now_ns());
  const struct sigaction& old = before(signal);
  if (has_handler(old)) {
    if ((old.sa_flags & SA_SIGINFO) != 0) {
      old.sa_sigaction(signal, info, context);
    } else {
      old.sa_handler(signal);
    }
  } else if (signal == SIGINT && state.interrupted.exchange(true)) {
    ::signal(SIGINT, SIG_DFL);
    ::raise(SIGINT);  // delivered when this handler returns
  }
  errno = error;
}

}  // namespace

StopSignals::StopSignals(RoundNotices& notices, RoundNotices::Bits bit) {
  const std::scoped_lock lock(state.lock);
  while (place_ < kObjects && state.listeners[place_].notices.load() != nullptr) ++place_;
  if (place_ == kObjects) throw UsageError("more than 256 Checkpointers of this process stop on signals");
  state.listeners[place_].bit.store(bit);
  state.listeners[place_].notices.store(&notices);
  if (state.objects++ > 0) return;
  state.first_ns.store(0);
  state.interrupted.store(false);
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &state.before[i]);
    if (!has_handler(state.before[i]) && state.before[i].sa_handler == SIG_IGN) continue;
    ::sigaction(kSignals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  const std::scoped_lock lock(state.lock);
  state.listeners[place_].notices.store(nullptr);
  if (--state.objects > 0) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &state.before[i], nullptr);
}

bool StopSignals::any() const noexcept { return state.first_ns.load() != 0; }

std::chrono::nanoseconds StopSignals::since_first() const noexcept {
  return std::chrono::nanoseconds(now_ns() - state.first_ns.load());
}

}  // namespace kolo
