#include "cuda/stream.h"

#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "base/deadline.h"
#include "kolo/error.h"

namespace kolo::cuda {
namespace {

// kNotReady is no error, but the runtime keeps it as one for whoever asks next.
bool passed(const Runtime& runtime, Status status, const char* call) {
  if (status == kNotReady) {
    runtime.api().take_last_error();
    return false;
  }
  runtime.check(status, call);
  return true;
}

}  // namespace

Event::Event(RuntimePtr runtime, int device, Timing timing) : runtime_(std::move(runtime)), device_(device) {
  const DeviceGuard guard(*runtime_, device_);
  const unsigned flags = timing == Timing::on ? kEventTiming : kEventDisableTiming;
  runtime_->check(runtime_->api().event_create(&handle_, flags), "cudaEventCreateWithFlags");
}

Event::~Event() {
  if (handle_ == nullptr) return;
  release(*runtime_, device_, [this](const RuntimeApi& api) { return api.event_destroy(handle_); });
}

Event::Event(Event&& other) noexcept
    : runtime_(std::move(other.runtime_)),
      device_(other.device_),
      handle_(std::exchange(other.handle_, nullptr)),
      recorded_(std::exchange(other.recorded_, false)) {}

Event& Event::operator=(Event&& other) noexcept {
  // What was here goes with `other`.
  std::swap(runtime_, other.runtime_);
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  std::swap(recorded_, other.recorded_);
  return *this;
}

void Event::record(Stream stream) {
  if (stream.device != device_) {
    throw UsageError("an event of device " + std::to_string(device_) + " cannot be recorded in a stream of device " +
                     std::to_string(stream.device));
  }
  const DeviceGuard guard(*runtime_, device_);  // a null handle means the current device's default stream
  runtime_->check(runtime_->api().event_record(handle_, stream.handle), "cudaEventRecord");
  recorded_ = true;
}

bool Event::passed() const {
  const DeviceGuard guard(*runtime_, device_);
  return cuda::passed(*runtime_, runtime_->api().event_query(handle_), "cudaEventQuery");
}

std::optional<float> milliseconds_between(const Runtime& runtime, const Event& from, const Event& to) {
  const DeviceGuard guard(runtime, to.device());
  float milliseconds = 0;
  const Status status = runtime.api().event_elapsed_time(&milliseconds, from.handle(), to.handle());
  if (!passed(runtime, status, "cudaEventElapsedTime")) return std::nullopt;
  return milliseconds;
}

bool is_captured(const Runtime& runtime, Stream stream) {
  const DeviceGuard guard(runtime, stream.device);
  int status = 0;
  runtime.check(runtime.api().stream_is_capturing(stream.handle, &status), "cudaStreamIsCapturing");
  return status != 0;
}

void wait_for(const Runtime& runtime, Stream later, const Event& earlier) {
  if (!earlier.recorded()) throw UsageError("a stream cannot wait for an event that was never recorded");
  const DeviceGuard guard(runtime, later.device);
  runtime.check(runtime.api().stream_wait_event(later.handle, earlier.handle(), 0), "cudaStreamWaitEvent");
}

Event EventPool::take() {
  {
    const std::lock_guard held(lock_);
    if (!free_.empty()) {
      Event event = std::move(free_.back());
      free_.pop_back();
      return event;
    }
  }
  return {runtime_, device_};
}

void EventPool::give_back(Event event) {
  const std::lock_guard held(lock_);
  free_.push_back(std::move(event));
}

void EventPool::order(Stream later, Stream earlier) {
  if (later.handle == earlier.handle && later.device == earlier.device) return;
  Event event = take();
  event.record(earlier);
  wait_for(*runtime_, later, event);
  give_back(std::move(event));  // recording it again does not move a wait that is enqueued
}

OwnStream::OwnStream(RuntimePtr runtime, int device, Priority priority)
    : runtime_(std::move(runtime)), device_(device) {
  const DeviceGuard guard(*runtime_, device_);
  int least = 0;
  int greatest = 0;
  runtime_->check(runtime_->api().stream_priorities(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  runtime_->check(
      runtime_->api().stream_create(&handle_, kStreamNonBlocking, priority == Priority::high ? greatest : least),
      "cudaStreamCreateWithPriority");
}

OwnStream::~OwnStream() {
  release(*runtime_, device_, [this](const RuntimeApi& api) { return api.stream_destroy(handle_); });
}

bool OwnStream::idle() const {
  const DeviceGuard guard(*runtime_, device_);
  return passed(*runtime_, runtime_->api().stream_query(handle_), "cudaStreamQuery");
}

bool comes_to_rest(const OwnStream& stream) noexcept {
  const base::Deadline deadline(std::chrono::seconds(2));
  try {
    while (!stream.idle()) {
      if (deadline.passed()) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  } catch (const std::exception&) {
  }
  return true;
}

}  // namespace kolo::cuda
