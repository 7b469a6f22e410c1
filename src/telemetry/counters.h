#pragma once
#include <atomic>
#include <cstdint>

#include "kolo/context.h"

namespace kolo::telemetry {

// One relaxed counter, safe from any thread.
class Counter {
 public:
  void add(std::uint64_t amount = 1) noexcept { value_.fetch_add(amount, std::memory_order_relaxed); }
  // For counters that are a maximum.
  void raise_to(std::uint64_t candidate) noexcept {
    std::uint64_t seen = value_.load(std::memory_order_relaxed);
    while (seen < candidate && !value_.compare_exchange_weak(seen, candidate, std::memory_order_relaxed)) {
    }
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// Every counter of one Context. A member here, a row in counters.cpp, a line in docs/formats.md.
struct Counters {
  Counter control_messages;  // messages of the named channel sent by this rank
  Counter control_bytes;
  Counter control_depth_max;     // depth of the control tree that was used, as a maximum (raise_to)
  Counter messages_sent;         // transport messages that carry payload
  Counter bytes_on_wire;         // payload bytes handed to a transport that leaves the process's host, or to MPI
  Counter bytes_early;           // received over TCP before a receive was there for them, and copied once more
  Counter mpi_calls;             // in which the transport over MPI looked for messages that had come or gone
  Counter bytes_reduced_shared;  // bytes reduced through shared memory by this rank
  Counter bytes_copied;          // packing into and unpacking out of buffers
  Counter copies;
  Counter bytes_carried;          // of devices' gradients, through this rank's host memory, one share of each bucket
  Counter pieces_travelling_max;  // pieces of one share that were on the network at the same time, as a maximum
  Counter coordinator_wakeups;
  Counter polls;        // of operations, by waiting callers and by the coordinator thread
  Counter launches;     // collectives started by the engine
  Counter plan_hits;    // rounds that ran on a frozen plan
  Counter plan_misses;  // rounds that were negotiated
  Counter plans_voided;
  Counter steps_recorded;    // lines of the step log
  Counter timeline_events;   // given to the timeline
  Counter timeline_dropped;  // of them, not written: the disk was too slow, or full
  Counter wait_ns;           // time callers spent waiting in finish() and Work::wait()

  [[nodiscard]] CounterSnapshot snapshot() const;
};

}  // namespace kolo::telemetry
