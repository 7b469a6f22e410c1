#pragma once
// A Transport that misbehaves on purpose, for tests.
#include <cstdint>
#include <memory>

#include "transport/transport.h"

namespace kolo::transport {

// Of one rank's end. Chances are in 0..1 and drawn from `seed`, so a failure can be repeated.
struct Faults {
  std::uint64_t seed = 1;
  int max_delay_tests = 0;    // a transfer's completion is hidden for 0..n calls of test()
  double drop = 0;            // a message is never sent; its send completes
  double truncate = 0;        // only the first half of a message is sent
  std::uint64_t kill_at = 0;  // from this transfer on (counted from 1; 0: never) nothing is sent or completes any more
};

[[nodiscard]] std::unique_ptr<Transport> make_faulty(std::unique_ptr<Transport> inner, const Faults& faults);

}  // namespace kolo::transport
