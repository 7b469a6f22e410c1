#pragma once
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>

namespace kolo {

class WorkState;

// Handle of a request that was submitted by name. Cheap to copy; thread-safe. Outlives its Engine safely: what was
// pending at shutdown fails with UsageError.
class Work {
 public:
  Work() = default;
  explicit Work(std::shared_ptr<WorkState> state) : state_(std::move(state)) {}

  [[nodiscard]] bool done() const noexcept;
  // Drives progress while it waits, for Config::timeout or as said. Throws what the operation failed with.
  // TimeoutError: while done() is false it goes on, and its memory must live; once done() is true it was withdrawn on
  // all ranks and its memory is the caller's again, unless the group has ended with it (Context::failure()).
  void wait();
  void wait_for(std::chrono::milliseconds timeout);
  // The result in kolo's own memory; valid until the name is submitted again, while a copy of this Work lives.
  // REQUIRES: wait() has returned.
  [[nodiscard]] std::span<const std::byte> result() const;

 private:
  std::shared_ptr<WorkState> state_;  // shared by caller and coordinator, either may let go first
};

}  // namespace kolo
