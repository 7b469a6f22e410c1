#pragma once
// A table of calls that knows the copies of pieces: out of the device into page-locked memory that carries shares, and
// back. Other copies into page-locked memory are of a few bytes.
#include <functional>
#include <mutex>
#include <set>

#include "multirank/device/hurried_events.h"

namespace kolo::test {

struct PieceCopy {
  int device = 0;
  std::size_t offset = 0;  // in the share, bytes
  cuda::StreamHandle stream = nullptr;
};

// One at a time.
class ShareTable : public HurriedEvents {
 public:
  ShareTable() { instance_ = this; }
  ~ShareTable() { instance_ = nullptr; }
  ShareTable(const ShareTable&) = delete;
  ShareTable& operator=(const ShareTable&) = delete;

  // Called before a copy is enqueued.
  std::function<void(const PieceCopy&)> before_out{};
  std::function<void(const PieceCopy&)> before_in{};
  // The streams that copies have been seen in.
  [[nodiscard]] std::set<cuda::StreamHandle> out_streams() const { return streams(out_); }
  [[nodiscard]] std::set<cuda::StreamHandle> in_streams() const { return streams(in_); }

  // `real` outlives this.
  [[nodiscard]] cuda::RuntimeApi over(const cuda::RuntimeApi& real) {
    real_ = real;
    cuda::RuntimeApi api = real;
    api.allocate_pinned = [](void** memory, std::size_t bytes, unsigned flags) {
      return instance_->allocate(memory, bytes, flags);
    };
    api.copy = [](void* to, const void* from, std::size_t bytes, cuda::CopyKind kind, cuda::StreamHandle stream) {
      instance_->before(to, from, bytes, stream);
      return instance_->real_.copy(to, from, bytes, kind, stream);
    };
    api.event_record = [](cuda::EventHandle event, cuda::StreamHandle stream) {
      return instance_->record(event, stream);
    };
    api.event_query = [](cuda::EventHandle event) { return instance_->query(event); };
    return api;
  }

 private:
  static constexpr std::size_t kFewBytes = 512;

  [[nodiscard]] std::set<cuda::StreamHandle> streams(const std::set<cuda::StreamHandle>& of) const {
    const std::scoped_lock lock(lock_);
    return of;
  }
  cuda::Status allocate(void** memory, std::size_t bytes, unsigned flags) {
    const cuda::Status status = real_.allocate_pinned(memory, bytes, flags);
    const std::scoped_lock lock(lock_);
    const auto* const begin = static_cast<const std::byte*>(*memory);
    if (status == cuda::kSuccess) pinned_[begin] = bytes;
    carries_.erase(begin);
    return status;
  }
  void before(const void* to, const void* from, std::size_t bytes, cuda::StreamHandle stream) {
    PieceCopy copy{.stream = stream};
    real_.get_device(&copy.device);
    const std::function<void(const PieceCopy&)>* told = nullptr;
    {
      const std::scoped_lock lock(lock_);
      if (const auto* const out = block_of(pinned_, to); out != nullptr && bytes > kFewBytes) {
        carries_.insert(out);
        out_.insert(stream);
        copy.offset = static_cast<std::size_t>(static_cast<const std::byte*>(to) - out);
        told = &before_out;
      } else if (const auto* const in = block_of(pinned_, from); in != nullptr && carries_.contains(in)) {
        in_.insert(stream);
        copy.offset = static_cast<std::size_t>(static_cast<const std::byte*>(from) - in);
        told = &before_in;
      }
    }
    if (told != nullptr && *told) (*told)(copy);
  }
  cuda::Status record(cuda::EventHandle event, cuda::StreamHandle stream) {
    {
      const std::scoped_lock lock(lock_);
      recorded(event, out_.contains(stream));
    }
    return real_.event_record(event, stream);
  }
  cuda::Status query(cuda::EventHandle event) { return hurries(event) ? cuda::kSuccess : real_.event_query(event); }

  static inline ShareTable* instance_ = nullptr;
  cuda::RuntimeApi real_;
  mutable std::mutex lock_;
  MemoryBlocks pinned_;
  std::set<const std::byte*> carries_;  // those of shares
  std::set<cuda::StreamHandle> out_;
  std::set<cuda::StreamHandle> in_;
};

}  // namespace kolo::test
