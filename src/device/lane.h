#pragma once
// What kolo does on one device of a rank: a stream of its own, in which everything is reduced, in an order that is the
// same on all ranks.
//
//   producer's stream   [ backward ... ][ backward ... ]                          [ update ]
//                                 \ event          \ event                       /
//   the lane                        [ pack ][ allreduce ] [ pack ][ allreduce ]-+ event
//
// The host waits for none of it. What it agrees on with the other ranks' hosts, before it enqueues, is in
// engine/device_bucket.h; how hosts reduce, where devices cannot, in engine/staged_bucket.h.
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cuda/kernel.h"
#include "cuda/memory.h"
#include "cuda/stream.h"
#include "device/route.h"
#include "kolo/spi/communicator.h"

namespace kolo::device {

struct LaneParts {
  cuda::RuntimePtr runtime;
  int device = 0;
  std::shared_ptr<cuda::KernelImage> kernels;
  std::unique_ptr<Communicator> communicator;      // for memory of this device; over whom, says the route
  cuda::Priority priority = cuda::Priority::high;  // of the lane's stream
  Route route = Route::devices;
  LaneShares shares{};
  bool gives_turns = true;                             // this is rank 0 of the world
  std::shared_ptr<cuda::HostWord> given_up = nullptr;  // set before collectives in flight are aborted; null: none are
};

// For copies to and from the host that go on beside what the lane does, in both directions at once.
struct CopyStreams {
  CopyStreams(const cuda::RuntimePtr& runtime, int device) : out(runtime, device), in(runtime, device) {}
  cuda::OwnStream out;
  cuda::OwnStream in;
};

// Externally synchronized, but for events(), order_after() and order_before().
class Lane {
 public:
  explicit Lane(LaneParts parts);
  // Gives up what is not done, and waits shortly for the device; memory that it does not let go of by then is lost.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  [[nodiscard]] int device() const noexcept { return parts_.device; }
  [[nodiscard]] Stream stream() const noexcept { return stream_.view(); }
  [[nodiscard]] const cuda::RuntimePtr& runtime() const noexcept { return parts_.runtime; }
  [[nodiscard]] cuda::KernelImage& kernels() noexcept { return *parts_.kernels; }
  [[nodiscard]] Communicator& communicator() noexcept { return *parts_.communicator; }
  [[nodiscard]] Route route() const noexcept { return parts_.route; }
  [[nodiscard]] LaneShares& shares() noexcept { return parts_.shares; }
  // REQUIRES: Route::shares_by_hosts.
  [[nodiscard]] CopyStreams& copies() noexcept { return *copies_; }
  [[nodiscard]] cuda::EventPool& events() noexcept { return events_; }
  // What is aborted the device passes as if it had been carried out: updates behind it are to look here first.
  [[nodiscard]] const std::shared_ptr<cuda::HostWord>& given_up() const noexcept { return parts_.given_up; }
  // Of the communicator, and collective there, behind what is in flight. Where it has none left, what the program keeps
  // for itself is released, on all its ranks, and it is asked once more.
  [[nodiscard]] std::unique_ptr<RegisteredBuffer> allocate(std::size_t bytes, std::chrono::milliseconds timeout);
  // For a thread that works for this lane only: its device becomes the thread's, and the guards in what it calls have
  // nothing to do.
  void adopt_thread() const noexcept;
  [[nodiscard]] bool is_captured(Stream stream) const { return cuda::is_captured(*parts_.runtime, stream); }
  // What is enqueued in the lane from now on comes after what is in `earlier` by now.
  void order_after(Stream earlier);
  // What is enqueued in `later` from now on comes after what is in the lane by now. A lost device has no order.
  void order_before(Stream later) noexcept;

  // Turns, counted from 1: NCCL deadlocks where two ranks enqueue in different orders. Rank 0 hands them out and the
  // others learn them from the flags (engine/device_bucket.h), where theirs are 0.
  [[nodiscard]] std::uint64_t take_turn() noexcept { return parts_.gives_turns ? ++turns_ : 0; }
  [[nodiscard]] bool is_turn(std::uint64_t turn) const noexcept { return turn == next_; }
  void end_turn() noexcept { ++next_; }
  // Those whose buckets take turns, and what gives the device back memory that their program keeps for itself. Thread-
  // safe.
  void add_reducer(const void* reducer, std::function<void()> release);
  void remove_reducer(const void* reducer) noexcept;
  [[nodiscard]] bool has_one_reducer() const noexcept;

  // Enqueued; watched from now on.
  void keep(std::unique_ptr<Operation> operation) { in_flight_.push_back(std::move(operation)); }
  // Memory that the lane, or `user`, may still use: goes when the device has passed what is enqueued in both by now.
  void retire(std::shared_ptr<void> memory, Stream user);
  // Looks at what is in flight on the device. Throws what it failed with: BackendError, TimeoutError.
  void watch();
  // Whether a collective is, as far as watch() has seen.
  [[nodiscard]] bool in_flight() const noexcept { return !in_flight_.empty(); }
  // Nothing is under way any more, or the device is lost.
  [[nodiscard]] bool idle() const noexcept;
  // Ends what is in flight: a rank is lost, and the device would wait for it for ever.
  void give_up() noexcept;
  // watch(), after the end: nobody is left to be told what fails.
  void settle() noexcept;

 private:
  void wait_for_collectives(std::chrono::milliseconds timeout);
  [[nodiscard]] bool is_lost() const noexcept;
  void release_cached();

  LaneParts parts_;
  cuda::OwnStream stream_;
  std::optional<CopyStreams> copies_;
  cuda::EventPool events_;
  std::uint64_t turns_ = 0;
  std::uint64_t next_ = 1;
  mutable std::mutex reducers_lock_;
  std::map<const void*, std::function<void()>> reducers_;  // guarded by reducers_lock_; a function may be empty
  std::vector<std::unique_ptr<Operation>> in_flight_;
  struct Retired {
    cuda::Event last;
    std::shared_ptr<void> memory;  // shared with nobody any more
  };
  std::vector<Retired> retired_;
};

}  // namespace kolo::device
