#pragma once
// Takes times on a device. The CPU can read the time of a mark after the device has passed it.
#include <cstdint>
#include <optional>

#include "kolo/types.h"

namespace kolo::telemetry {

// Externally synchronized. No call waits for the device. Calls throw kolo::Error if the device has failed.
class DeviceClock {
 public:
  using Mark = std::uint32_t;

  virtual ~DeviceClock() = default;
  // Adds a mark at the end of `stream`. Returns nullopt while the stream is captured into a graph.
  [[nodiscard]] virtual std::optional<Mark> record(Stream stream) = 0;
  // Moves the mark behind what is in `stream` by now, unless that is being captured.
  virtual void record_again(Mark mark, Stream stream) = 0;
  // When the device passed the mark, on the axis of Recorder::now_ns(). nullopt: not yet passed.
  [[nodiscard]] virtual std::optional<std::int64_t> time_of(Mark mark) = 0;
  // The mark is not used any more. Its number may come again.
  virtual void release(Mark mark) noexcept = 0;
};

}  // namespace kolo::telemetry
