#pragma once
// A table of calls that knows a staged bucket's copies: those from and to memory of the host that was registered.
#include <functional>
#include <mutex>
#include <set>

#include "multirank/device/hurried_events.h"

namespace kolo::test {

// One at a time.
class StagingTable : public HurriedEvents {
 public:
  StagingTable() { instance_ = this; }
  ~StagingTable() { instance_ = nullptr; }
  StagingTable(const StagingTable&) = delete;
  StagingTable& operator=(const StagingTable&) = delete;

  // Called with the stream of a copy into the device, before it is enqueued there.
  std::function<void(cuda::StreamHandle)> before_copy_in{};

  // `real` outlives this.
  [[nodiscard]] cuda::RuntimeApi over(const cuda::RuntimeApi& real) {
    real_ = real;
    cuda::RuntimeApi api = real;
    api.register_host = [](void* memory, std::size_t bytes, unsigned flags) {
      const std::scoped_lock lock(instance_->lock_);
      instance_->registered_[static_cast<const std::byte*>(memory)] = bytes;
      return instance_->real_.register_host(memory, bytes, flags);
    };
    api.copy = [](void* to, const void* from, std::size_t bytes, cuda::CopyKind kind, cuda::StreamHandle stream) {
      return instance_->copy({to, from, bytes}, kind, stream);
    };
    api.event_record = [](cuda::EventHandle event, cuda::StreamHandle stream) {
      return instance_->record(event, stream);
    };
    api.event_query = [](cuda::EventHandle event) { return instance_->query(event); };
    return api;
  }

 private:
  struct Copy {
    void* to;
    const void* from;
    std::size_t bytes;
  };
  [[nodiscard]] bool is_registered(const void* memory) const { return block_of(registered_, memory) != nullptr; }
  cuda::Status copy(const Copy& copy, cuda::CopyKind kind, cuda::StreamHandle stream) {
    bool in = false;
    {
      const std::scoped_lock lock(lock_);
      in = is_registered(copy.from);
      if (is_registered(copy.to)) copied_out_.insert(stream);
    }
    if (in && before_copy_in) before_copy_in(stream);
    return real_.copy(copy.to, copy.from, copy.bytes, kind, stream);
  }
  // The first event behind a copy out is the one that the host looks at.
  cuda::Status record(cuda::EventHandle event, cuda::StreamHandle stream) {
    {
      const std::scoped_lock lock(lock_);
      recorded(event, copied_out_.erase(stream) != 0);
    }
    return real_.event_record(event, stream);
  }
  cuda::Status query(cuda::EventHandle event) { return hurries(event) ? cuda::kSuccess : real_.event_query(event); }

  static inline StagingTable* instance_ = nullptr;
  cuda::RuntimeApi real_;
  std::mutex lock_;
  MemoryBlocks registered_;
  std::set<cuda::StreamHandle> copied_out_;
};

}  // namespace kolo::test
