#pragma once
// What a rank that lives on does in the programs of this folder, in which another one dies by SIGKILL.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "kolo/kolo.h"

namespace kolo::test {

inline constexpr std::chrono::seconds kPatience{15};  // from the last call on, in which the peer was lost
inline constexpr unsigned kEndOfAll = 60;             // seconds after which a rank that hangs is ended

inline Config config_for_faults() {
  Config config;
  config.timeout = std::chrono::seconds(50);  // so that a deadline is not taken for a death
  config.log_level = LogLevel::error;
  config.bucket_bytes = 256 * 1024;
  config.last_bucket_bytes = 64 * 1024;
  return config;
}

[[noreturn]] inline void die() {
  std::raise(SIGKILL);
  std::abort();
}

// Dies while the caller is at whatever it does then.
inline void die_after(std::chrono::milliseconds delay) {
  std::thread([delay] {
    std::this_thread::sleep_for(delay);
    die();
  }).detach();
}

// Repeats `step` until it fails, which it must with a PeerLostError that names the victim. Returns what went wrong, or
// nothing.
inline std::string outlive(Rank victim, const std::function<void()>& step) {
  for (;;) {
    const auto begin = std::chrono::steady_clock::now();
    try {
      step();
    } catch (const PeerLostError& error) {
      const auto spent = std::chrono::steady_clock::now() - begin;
      if (error.rank() != victim) return std::string("names the wrong rank: ") + error.what();
      if (spent > kPatience)
        return "late: " + std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(spent).count()) + " ms";
      return {};
    } catch (const std::exception& error) {
      return std::string("another error: ") + error.what();
    }
  }
}

// The line that peer_killed.py waits for; one call, so that lines of several ranks do not mix.
inline int report(Rank rank, const std::string& complaint) {
  std::printf("survivor %d: %s\n", rank, complaint.empty() ? "ok" : complaint.c_str());
  std::fflush(stdout);
  return complaint.empty() ? 0 : 1;
}

}  // namespace kolo::test
