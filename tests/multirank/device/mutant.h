#pragma once
// A runtime that leaves out waits, to see that the simulated device reports what is missing.
#include <map>
#include <mutex>
#include <optional>
#include <string_view>

#include "support/device/simulated_device.h"

namespace kolo::test {

// A wait of one stream for another, by the roles of the streams. kolo owns the lane and the streams of copies.
enum class Role { lane, backward, user, copies_out, copies_in };
struct Wait {
  Role later;
  Role earlier;
};

// A table that leaves out the waits of one kind. One at a time.
class Mutant {
 public:
  Mutant() { instance_ = this; }
  ~Mutant() { instance_ = nullptr; }
  Mutant(const Mutant&) = delete;
  Mutant& operator=(const Mutant&) = delete;

  // From now on.
  void leave_out(Wait wait) {
    const std::scoped_lock lock(lock_);
    left_out_ = wait;
  }
  void set_role(cuda::StreamHandle stream, Role role) {
    const std::scoped_lock lock(lock_);
    roles_[stream] = role;
  }
  // From now on: launches in streams of this role go to the default stream.
  void misplace_launches(Role role) {
    const std::scoped_lock lock(lock_);
    misplaced_ = role;
  }
  [[nodiscard]] int left_out() const { return count_; }
  [[nodiscard]] int misplaced() const { return misplaced_count_; }

  // `real` outlives this.
  [[nodiscard]] cuda::RuntimeApi over(const cuda::RuntimeApi& real) {
    real_ = real;
    cuda::RuntimeApi api = real;
    api.event_record = [](cuda::EventHandle event, cuda::StreamHandle stream) {
      return instance_->record(event, stream);
    };
    api.stream_wait_event = [](cuda::StreamHandle stream, cuda::EventHandle event, unsigned flags) {
      return instance_->wait(stream, event, flags);
    };
    api.launch = [](const void* kernel, cuda::Dim3 grid, cuda::Dim3 block, void** arguments, std::size_t bytes,
                    cuda::StreamHandle stream) {
      return instance_->real_.launch(kernel, grid, block, arguments, bytes, instance_->place_of(stream));
    };
    return api;
  }

 private:
  Role role_of(cuda::StreamHandle stream) const {
    const auto found = roles_.find(stream);
    return found == roles_.end() ? Role::lane : found->second;
  }
  cuda::StreamHandle place_of(cuda::StreamHandle stream) {
    const std::scoped_lock lock(lock_);
    if (!misplaced_ || role_of(stream) != *misplaced_) return stream;
    ++misplaced_count_;
    return nullptr;
  }
  cuda::Status record(cuda::EventHandle event, cuda::StreamHandle stream) {
    {
      const std::scoped_lock lock(lock_);
      recorded_in_[event] = role_of(stream);
    }
    return real_.event_record(event, stream);
  }
  cuda::Status wait(cuda::StreamHandle stream, cuda::EventHandle event, unsigned flags) {
    {
      const std::scoped_lock lock(lock_);
      if (left_out_ && role_of(stream) == left_out_->later && recorded_in_[event] == left_out_->earlier) {
        ++count_;
        return cuda::kSuccess;
      }
    }
    return real_.stream_wait_event(stream, event, flags);
  }

  static inline Mutant* instance_ = nullptr;
  cuda::RuntimeApi real_;
  std::mutex lock_;
  std::map<cuda::StreamHandle, Role> roles_;
  std::map<cuda::EventHandle, Role> recorded_in_;
  std::optional<Wait> left_out_;
  std::optional<Role> misplaced_;
  int count_ = 0;
  int misplaced_count_ = 0;
};

inline std::string_view name_of(Role role) {
  constexpr std::string_view kNames[] = {"the lane",       "backward",      "the user",
                                         "the copies out", "the copies in", "the sums"};
  return kNames[static_cast<std::size_t>(role)];
}

}  // namespace kolo::test
