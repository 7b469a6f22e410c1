#pragma once
// How this rank's share of a bucket (share.h) comes to the other hosts, and the sum of all back into it:
//
//   staged_crossing.h   through the host's memory, in pieces
//   ring_crossing.h     straight between devices, where the hosts' network takes their memory
#include <vector>

#include "kolo/types.h"

namespace kolo::device {

// Externally synchronized. begin(), advance() until it is true, order_lane(); and again. All ranks that have the share
// do the same, in the same order.
class ShareCrossing {
 public:
  virtual ~ShareCrossing() = default;
  // What the lane holds by now comes before it.
  virtual void begin() = 0;
  // True once nothing of it waits for others any more. Throws PeerLostError, BackendError.
  virtual bool advance() = 0;
  // What is enqueued in the lane from now on finds the sums. REQUIRES: advance() returned true.
  virtual void order_lane() = 0;
  // Whether any of it went on since the last call.
  [[nodiscard]] virtual bool moved() noexcept = 0;
  // Ranks of the world; none: this rank's own device.
  [[nodiscard]] virtual std::vector<Rank> waiting_for() const = 0;
};

}  // namespace kolo::device
