#pragma once
// Streams as queues, events as edges between them, and the scheduler that chooses what runs next.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "support/device/device_memory.h"
#include "support/device/simulated_device.h"

namespace kolo::test {

// The position'th operation of a stream; 0: none.
struct Point {
  std::size_t stream = 0;
  std::uint64_t position = 0;
};

using SimulatedTime = std::chrono::nanoseconds;  // since the device was made

struct Entry {
  Operation operation;
  std::shared_ptr<const std::string> what;  // operation.what, and which of what stream
  Point point;
  Clock clock;                                      // what is before it, and itself
  std::vector<Point> after;                         // edges
  SimulatedTime issued{0};                          // when the host enqueued it
  SimulatedTime arrived_at{0};                      // when all that it is ordered behind had ended
  std::function<std::vector<Range>()> late_ranges;  // known only when it runs: tables in the device's memory
  bool kernel = false;
  bool arrived = false;
  bool broken = false;  // uses memory that it may not: reported, and not run
};

struct SimulatedStream {
  std::size_t index = 0;
  int device = 0;
  bool legacy = false;    // the default stream
  bool blocking = false;  // ordered with the default stream
  bool destroyed = false;
  bool capturing = false;
  int priority = 0;  // noted only
  std::deque<Entry> queue;
  std::uint64_t issued = 0;
  std::uint64_t done = 0;
  Clock clock;  // of what is enqueued next, without what the host knows
  int favour = 0;
  std::vector<SimulatedTime> ends;  // of its operations that have run, by position
};

struct SimulatedEvent {
  int device = 0;
  bool destroyed = false;
  bool timed = false;
  Point point;  // of the latest record
  Clock clock;
};

// Not thread-safe: the core's lock guards it.
class DeviceStreams {
 public:
  DeviceStreams(const DeviceOptions& options, DeviceMemory& memory, DeviceMemory::Report report);

  SimulatedStream& create(int device, bool blocking);
  // Null for a handle that is none, or destroyed. A null handle is the default stream of `device`.
  [[nodiscard]] SimulatedStream* find(cuda::StreamHandle handle, int device);
  [[nodiscard]] int live() const;

  Entry& enqueue(SimulatedStream& stream, Operation operation, std::vector<Point> after = {}, const Clock& known = {});
  void record(SimulatedEvent& event, SimulatedStream& stream);
  void wait(SimulatedStream& stream, const SimulatedEvent& event);

  void pass_time(SimulatedTime time) { host_time_ += time; }
  // REQUIRES: done(point).
  [[nodiscard]] SimulatedTime end_of(const Point& point) const {
    return point.position == 0 ? SimulatedTime{0} : streams_[point.stream]->ends[point.position - 1];
  }
  [[nodiscard]] bool done(const Point& point) const { return streams_[point.stream]->done >= point.position; }
  // What a synchronisation of the stream waits for: its own last operation; the default stream: all blocking ones'.
  [[nodiscard]] std::vector<Point> pending(const SimulatedStream& stream) const;
  // What the host knows after that.
  [[nodiscard]] Clock clock_of(const SimulatedStream& stream) const;
  // The host has seen the end of all that is in `clock`; `orders`: so it comes before what is enqueued from now on.
  void host_knows(const Clock& clock, bool orders = true) {
    join(host_, clock);
    if (orders) join(host_order_, clock);
  }
  [[nodiscard]] const Clock& host() const { return host_; }
  [[nodiscard]] Clock everything() const;  // that was ever enqueued

  // A random number of operations. Returns how many ran.
  std::size_t run_some();
  // Everything that can run.
  std::size_t run_all();
  // Whether nothing can run although something is queued.
  bool stuck();
  // When operations wait for each other in a circle, the circle in words, once for each; empty: none that is new.
  [[nodiscard]] std::string new_circle();
  [[nodiscard]] bool in_circle() const { return !circles_.empty(); }
  void forget_circles() { circles_.clear(); }
  [[nodiscard]] std::string what_waits() const;  // each stream's first operation, in words
  [[nodiscard]] std::size_t queued() const;
  // The queued operations that (for a write: read or) write the range.
  std::vector<std::string> queued_on(const Range& range, bool mark_broken = false);

 private:
  bool runnable(SimulatedStream& stream);
  void arrive(Entry& entry);
  [[nodiscard]] SimulatedTime end_of(const Entry& entry) const;
  [[nodiscard]] std::vector<SimulatedStream*> candidates();
  SimulatedStream& choose(const std::vector<SimulatedStream*>& from);
  void run_front(SimulatedStream& stream);
  void run_body(SimulatedStream& stream, Entry& entry);
  [[nodiscard]] const Entry* find(OperationId id) const;
  void add_earlier(const Entry& entry, std::vector<const Entry*>& into) const;
  [[nodiscard]] std::vector<const Entry*> needs(const Entry& entry) const;
  [[nodiscard]] std::string words(const Entry& entry) const;

  std::mt19937_64 random_;
  DeviceMemory& memory_;
  DeviceMemory::Report report_;
  std::vector<std::unique_ptr<SimulatedStream>> streams_;  // the first ones: the default streams, by device
  Clock host_;
  Clock host_order_;         // a part of it
  bool favourites_ = false;  // whether some streams are let run far ahead of others
  int until_new_favours_ = 0;
  std::function<SimulatedTime(const std::string& what)> takes_;
  SimulatedTime host_time_{0};
  std::map<OperationId, SimulatedTime> arrivals_;  // of operations that are carried out together with others
  std::set<OperationId> circles_;                  // members of circles that were found
};

[[nodiscard]] OperationId operation_id(const Point& point);

}  // namespace kolo::test
