#pragma once
// Bytes between two ranks: the interface that every algorithm and the control channel are written against.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "cluster/liveness.h"
#include "kolo/types.h"

namespace kolo::transport {

// The owner of a Transport gives each use a tag range of its own.
using Tag = std::uint32_t;
inline constexpr Tag kLastTag = (Tag{1} << 30) - 1;

// One message being sent or received. Destroying it before it is complete abandons it: what was to come goes nowhere.
// Media of kolo's own have let go of its memory then; over MPI that of a send must outlive the Transport.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // Without waiting: true once complete (a send: its memory may be reused). Throws PeerLostError or BackendError.
  virtual bool test() = 0;
  // Bytes received; at most the size of the receive buffer. REQUIRES: test() returned true.
  [[nodiscard]] virtual std::size_t size() const noexcept = 0;
};

// Externally synchronized, one per rank and group. Messages with equal (from, to, tag) arrive in the order in which
// they were sent; receives match in the order in which they were posted. A message longer than the receive buffer is a
// BackendError. A peer's death becomes PeerLostError where the medium can see it.
class Transport {
 public:
  virtual ~Transport() = default;
  [[nodiscard]] virtual Rank rank() const noexcept = 0;
  [[nodiscard]] virtual int size() const noexcept = 0;
  [[nodiscard]] virtual std::unique_ptr<Transfer> send(Rank to, Tag tag, std::span<const std::byte> data) = 0;
  [[nodiscard]] virtual std::unique_ptr<Transfer> receive(Rank from, Tag tag, std::span<std::byte> into) = 0;
  // Blocks until something may have arrived, or until `at_most` has passed; may return early. A medium that cannot
  // wait sleeps for a short while. Throws BackendError.
  virtual void wait_for_activity(std::chrono::microseconds at_most) = 0;
  // Throws PeerLostError when a rank is known to be lost: for waits, which no transfer ends then. Cheap enough for once
  // a millisecond; what neither the medium nor a monitor can see it does not know.
  virtual void check_peers() { require_whole(); }
  // What a monitor knows; null: there is none. It must outlive this.
  void set_liveness(const cluster::Liveness* liveness) noexcept { liveness_ = liveness; }
  // Wakes a wait_for_activity() of this rank from another thread. Thread-safe.
  virtual void wake() noexcept = 0;
  // How many messages it has sent and received, for those who ask whether anything has moved; a medium that wakes those
  // who wait need not count.
  [[nodiscard]] virtual std::uint64_t completed() const noexcept { return 0; }
  // The largest tag that the medium takes.
  [[nodiscard]] virtual Tag last_tag() const noexcept { return kLastTag; }

 protected:
  void require_whole() const {
    if (liveness_ != nullptr) liveness_->require_whole();
  }
  [[nodiscard]] bool watched() const noexcept { return liveness_ != nullptr; }
  [[nodiscard]] bool somebody_lost() const noexcept { return watched() && !liveness_->is_whole(); }

 private:
  const cluster::Liveness* liveness_ = nullptr;
};

}  // namespace kolo::transport
