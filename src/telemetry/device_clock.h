#pragma once
// Times on a device: of marks in its streams, which the CPU learns when the device has passed them.
#include <cstdint>
#include <optional>

#include "kolo/types.h"

namespace kolo::telemetry {

// Externally synchronized. No call waits for the device. Calls throw kolo::Error if the device has failed.
class DeviceClock {
 public:
  using Mark = std::uint32_t;

  virtual ~DeviceClock() = default;
  // A mark behind what is in `stream` by now. Nothing if the stream is being captured into a graph, which has no time.
  [[nodiscard]] virtual std::optional<Mark> record(Stream stream) = 0;
  // Moves the mark behind what is in `stream` by now, unless that is being captured.
  virtual void record_again(Mark mark, Stream stream) = 0;
  // When the device passed the mark, on the axis of Recorder::now_ns(). Nothing: it has not.
  [[nodiscard]] virtual std::optional<std::int64_t> time_of(Mark mark) = 0;
  // The mark is not used any more. Its number may come again.
  virtual void release(Mark mark) noexcept = 0;
};

}  // namespace kolo::telemetry
