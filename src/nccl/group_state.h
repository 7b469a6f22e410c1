#pragma once
// What a communicator shares with its operations and buffers, which may outlive it.
#include <memory>

#include "cuda/runtime.h"
#include "cuda/stream.h"
#include "nccl/comm_handle.h"

namespace kolo::nccl {

struct GroupState {
  GroupState(cuda::RuntimePtr the_runtime, int the_device, const CommParts& parts)
      : runtime(std::move(the_runtime)), device(the_device), events(runtime, device), handle(parts) {}

  cuda::RuntimePtr runtime;
  int device;
  cuda::EventPool events;
  CommHandle handle;
};

// A point in a stream, taken from the group's pool. Held by the operation that ends there and by whatever has to come
// behind it.
class StreamPoint {
 public:
  StreamPoint(std::shared_ptr<GroupState> group, Stream stream)
      : group_(std::move(group)), event_(group_->events.take()), stream_(stream) {
    event_.record(stream);
  }
  ~StreamPoint() { group_->events.give_back(std::move(event_)); }
  StreamPoint(const StreamPoint&) = delete;
  StreamPoint& operator=(const StreamPoint&) = delete;

  [[nodiscard]] const cuda::Event& event() const noexcept { return event_; }
  [[nodiscard]] Stream stream() const noexcept { return stream_; }

 private:
  std::shared_ptr<GroupState> group_;
  cuda::Event event_;
  Stream stream_;
};

using StreamPointPtr = std::shared_ptr<const StreamPoint>;

}  // namespace kolo::nccl
