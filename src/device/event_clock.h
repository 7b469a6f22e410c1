#pragma once
// Measures times on a device with timed events, relative to a reference event.
//
//   CPU        recorded_at             polls
//                |
//   own stream   reference                                 next reference
//   streams          mark      mark         mark               mark
//
// CUDA returns the time between two events as a float. A mark's time is the reference's CPU time plus that. The
// reference lies in a stream that is empty otherwise, where it passes at once; it is renewed when the floats become
// coarse.
#include <cstdint>
#include <optional>
#include <vector>

#include "cuda/stream.h"
#include "telemetry/device_clock.h"
#include "telemetry/recorder.h"

namespace kolo::device {

// Uses the device from the first mark on.
class EventClock final : public telemetry::DeviceClock {
 public:
  // Milliseconds after which the reference is renewed: until then a float resolves 15 ns.
  static constexpr float kFar = 250;

  // `now` is for tests.
  EventClock(cuda::RuntimePtr runtime, int device, telemetry::Recorder::Clock now = telemetry::Recorder::now_ns);

  [[nodiscard]] std::optional<Mark> record(Stream stream) override;
  void record_again(Mark mark, Stream stream) override;
  [[nodiscard]] std::optional<std::int64_t> time_of(Mark mark) override;
  void release(Mark mark) noexcept override { free_.push_back(mark); }

 private:
  struct Reference {
    cuda::Event event;
    std::int64_t recorded_at = 0;  // by the CPU
    std::int64_t time = 0;
  };
  [[nodiscard]] Reference make_reference();
  void renew();

  cuda::RuntimePtr runtime_;
  int device_;
  telemetry::Recorder::Clock now_;
  std::optional<cuda::OwnStream> stream_;  // of references
  std::optional<Reference> reference_;
  std::optional<Reference> next_;    // recorded, and not passed when last looked at
  std::vector<cuda::Event> events_;  // by mark
  std::vector<Mark> free_;
};

}  // namespace kolo::device
