#pragma once
// A table of calls that knows what adds up what has come from other hosts on a device: its launches, their streams, and
// the events that the host looks at, of the sums and of what they wait for.
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>

#include "cuda/runtime_api.h"

namespace kolo::test {

// One at a time.
class SumTable {
 public:
  // An event in a stream of sums; one that such a stream has waited for, which is a bucket's own for good.
  enum class Of { sums, shares };

  SumTable() { instance_ = this; }
  ~SumTable() { instance_ = nullptr; }
  SumTable(const SumTable&) = delete;
  SumTable& operator=(const SumTable&) = delete;

  // From now on the host is told at once, and wrongly, that such events have passed.
  void hurry(Of events) {
    const std::scoped_lock lock(lock_);
    hurry_ = events;
  }
  [[nodiscard]] int hurried() const {
    const std::scoped_lock lock(lock_);
    return hurried_;
  }
  // Called before a sum is enqueued, with its stream.
  std::function<void(int device, cuda::StreamHandle)> before_sum{};
  // The streams that sums have been seen in.
  [[nodiscard]] std::set<cuda::StreamHandle> streams() const {
    const std::scoped_lock lock(lock_);
    return streams_;
  }

  // `real` outlives this.
  [[nodiscard]] cuda::RuntimeApi over(const cuda::RuntimeApi& real) {
    real_ = real;
    cuda::RuntimeApi api = real;
    api.get_kernel = [](cuda::KernelHandle* kernel, cuda::LibraryHandle library, const char* name) {
      const cuda::Status status = instance_->real_.get_kernel(kernel, library, name);
      const std::scoped_lock lock(instance_->lock_);
      if (status == cuda::kSuccess && std::string_view(name) == "kolo_accumulate") instance_->kernels_.insert(*kernel);
      return status;
    };
    api.launch = [](const void* kernel, cuda::Dim3 grid, cuda::Dim3 block, void** arguments, std::size_t shared,
                    cuda::StreamHandle stream) {
      instance_->before(kernel, stream);
      return instance_->real_.launch(kernel, grid, block, arguments, shared, stream);
    };
    api.event_record = [](cuda::EventHandle event, cuda::StreamHandle stream) {
      {
        const std::scoped_lock lock(instance_->lock_);
        instance_->recorded(event, stream);
      }
      return instance_->real_.event_record(event, stream);
    };
    api.stream_wait_event = [](cuda::StreamHandle stream, cuda::EventHandle event, unsigned flags) {
      {
        const std::scoped_lock lock(instance_->lock_);
        if (instance_->streams_.contains(stream)) instance_->of_shares_.insert(event);
      }
      return instance_->real_.stream_wait_event(stream, event, flags);
    };
    api.event_query = [](cuda::EventHandle event) {
      return instance_->hurries(event) ? cuda::kSuccess : instance_->real_.event_query(event);
    };
    return api;
  }

 private:
  void before(const void* kernel, cuda::StreamHandle stream) {
    {
      const std::scoped_lock lock(lock_);
      if (!kernels_.contains(kernel)) return;
      streams_.insert(stream);
    }
    int device = 0;
    real_.get_device(&device);
    if (before_sum) before_sum(device, stream);
  }
  void recorded(cuda::EventHandle event, cuda::StreamHandle stream) {
    if (streams_.contains(stream)) {
      of_sums_.insert(event);
    } else {
      of_sums_.erase(event);
    }
  }
  [[nodiscard]] bool hurries(cuda::EventHandle event) {
    const std::scoped_lock lock(lock_);
    if (!hurry_) return false;
    if (!(*hurry_ == Of::sums ? of_sums_ : of_shares_).contains(event)) return false;
    ++hurried_;
    return true;
  }

  static inline SumTable* instance_ = nullptr;
  cuda::RuntimeApi real_;
  mutable std::mutex lock_;
  std::set<const void*> kernels_;
  std::set<cuda::StreamHandle> streams_;
  std::set<cuda::EventHandle> of_sums_;
  std::set<cuda::EventHandle> of_shares_;
  std::optional<Of> hurry_;
  int hurried_ = 0;
};

}  // namespace kolo::test
