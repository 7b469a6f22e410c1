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

  // Whether wait() would return or throw at once; true for an empty Work, which belongs to no request.
  [[nodiscard]] bool done() const noexcept;
  // Drives progress while it waits, for Config::timeout or as said. Throws what the operation failed with.
  // TimeoutError: while done() is false it goes on, and its memory must live; once done() is true it was withdrawn on
  // all ranks and its memory is the caller's again, unless the group has ended with it (Context::failure()). UsageError
  // for an empty Work.
  void wait();
  void wait_for(std::chrono::milliseconds timeout);
  // The result in kolo's own memory; valid until the name is submitted again, while a copy of this Work lives.
  // UsageError before wait() has
  // returned, and for an empty Work.
  [[nodiscard]] std::span<const std::byte> result() const;

 private:
  [[nodiscard]] WorkState& state() const;  // throws UsageError where there is none

  std::shared_ptr<WorkState> state_;  // shared by caller and coordinator, either may let go first
};

}  // namespace kolo
