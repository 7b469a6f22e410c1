#pragma once
#include <atomic>
#include <string>

#include "kolo/types.h"

namespace kolo::cluster {

// Whether a world is still whole. Asked in every wait for peers; written by the monitor.
class Liveness {
 public:
  // The first loss is the cause that all waits of this rank then name; later ones change nothing. One writing thread.
  void report_loss(Rank rank, std::string text);
  // Throws PeerLostError once a rank is lost. Thread-safe; costs a load.
  void require_whole() const {
    if (!is_whole()) throw_lost();
  }
  [[nodiscard]] bool is_whole() const noexcept { return !lost_.load(std::memory_order_acquire); }

 private:
  [[noreturn]] void throw_lost() const;

  Rank rank_ = 0;  // these two are written before lost_ is set, and never again
  std::string text_;
  std::atomic<bool> lost_{false};
};

}  // namespace kolo::cluster
