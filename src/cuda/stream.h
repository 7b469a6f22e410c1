#pragma once
// Order on a device. kolo::Stream is the view that travels through interfaces; here are its owners, events, and the one
// function that orders streams: wait_for().
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/keep_for_good.h"
#include "cuda/runtime.h"
#include "kolo/types.h"

namespace kolo::cuda {

enum class Timing { off, on };

// A point in a stream, once recorded. Not copyable; movable. Never waits on destruction.
class Event {
 public:
  // Timing::on: for milliseconds_between(); such an event costs the device more.
  Event(RuntimePtr runtime, int device, Timing timing = Timing::off);
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;

  // Everything that is in `stream` by now comes before it. REQUIRES: the event's device.
  void record(Stream stream);
  [[nodiscard]] bool recorded() const noexcept { return recorded_; }
  // Whether the device has passed it. Throws BackendError, also when anything on the device has failed.
  // REQUIRES: recorded().
  [[nodiscard]] bool passed() const;
  [[nodiscard]] EventHandle handle() const noexcept { return handle_; }
  [[nodiscard]] int device() const noexcept { return device_; }

 private:
  RuntimePtr runtime_;
  int device_ = 0;
  EventHandle handle_ = nullptr;
  bool recorded_ = false;
};

// What is enqueued in `later` from now on waits for `earlier`; the host does not. UsageError for an event that was
// never recorded: the device would take it for one that has passed.
void wait_for(const Runtime& runtime, Stream later, const Event& earlier);
// The device's time from one event to another, negative if `to` comes first; nothing while the device has not passed
// both. Has the precision of a float. Throws BackendError. REQUIRES: Timing::on, recorded().
[[nodiscard]] std::optional<float> milliseconds_between(const Runtime& runtime, const Event& from, const Event& to);
// Whether what is enqueued in `stream` now goes into a CUDA graph and not to the device.
[[nodiscard]] bool is_captured(const Runtime& runtime, Stream stream);

// Events of one device, used again instead of made anew. Thread-safe.
class EventPool {
 public:
  EventPool(RuntimePtr runtime, int device) : runtime_(std::move(runtime)), device_(device) {}
  [[nodiscard]] Event take();
  // Nobody will wait for it any more; waits that were enqueued hold.
  void give_back(Event event);
  // `later` waits for what is in `earlier` by now.
  void order(Stream later, Stream earlier);

 private:
  RuntimePtr runtime_;
  int device_;
  std::mutex lock_;
  std::vector<Event> free_;
};

enum class Priority { normal, high };

// A stream of kolo's own, not ordered with the default stream. Its owner sees to it that nothing is enqueued any more
// when it goes; what is enqueued still runs.
class OwnStream {
 public:
  OwnStream(RuntimePtr runtime, int device, Priority priority = Priority::normal);
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  [[nodiscard]] Stream view() const noexcept { return {handle_, device_}; }
  // Whether everything that was enqueued is done. Throws BackendError.
  [[nodiscard]] bool idle() const;

 private:
  RuntimePtr runtime_;
  int device_;
  StreamHandle handle_ = nullptr;
};

// Waits at most two seconds until the stream is idle or its device has failed, which then uses no memory any more.
[[nodiscard]] bool comes_to_rest(const OwnStream& stream) noexcept;

// Releases `memory`, which operations in `stream` may still use, once the stream has come to rest. If that takes too
// long, the memory is kept for good: to free it would wait for the device without a deadline.
template <class Memory>
void release_after(const OwnStream& stream, Memory memory) noexcept {
  if (!comes_to_rest(stream)) base::keep_for_good(std::move(memory));
}

}  // namespace kolo::cuda
