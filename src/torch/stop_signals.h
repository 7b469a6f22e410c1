#pragma once
// Signals that ask a job to stop, as notices of the rounds of gradients.
#include <chrono>

#include "kolo/spi/round_notices.h"

namespace kolo {

// While it exists, SIGTERM, SIGUSR1, SIGUSR2 and SIGINT raise `bit`. A handler that the program had installed before is
// called, too. A signal that the program ignores stays ignored. A second SIGINT ends the process, unless the program
// handles it.
//
// Signals belong to the process: all objects get all of them. The first object installs the handlers, the last one puts
// the earlier ones back.
class StopSignals {
 public:
  // `notices` must outlive the object. Throws UsageError if there are too many objects.
  StopSignals(RoundNotices& notices, RoundNotices::Bits bit);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // True if a signal has come since the first object was made.
  [[nodiscard]] bool any() const noexcept;
  // How long ago the first one came. REQUIRES: any().
  [[nodiscard]] std::chrono::nanoseconds since_first() const noexcept;

 private:
  std::size_t place_ = 0;
};

}  // namespace kolo
