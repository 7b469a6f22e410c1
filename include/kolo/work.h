#pragma once
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>

#include "kolo/export.h"

namespace KOLO_EXPORT kolo {

class WorkState;

// Handle of a request that was submitted by name. Cheap to copy; thread-safe. Outlives its Engine safely: what was
// pending at shutdown fails with UsageError.
class Work {
 public:
  Work() = default;
  explicit Work(std::shared_ptr<WorkState> state) : state_(std::move(state)) {}

  // Whether wait() would return or throw at once; true for an empty Work, which belongs to no request.
  [[nodiscard]] bool done() const noexcept;
  // Drives progress for at most Config::timeout, or `timeout`. Throws the error of the operation, or
  // UsageError for an empty Work. If done() is false after TimeoutError, the operation continues and its
  // memory must live. If done() is true, all ranks have withdrawn the operation and the caller owns the
  // memory again, unless the group has ended too (Context::failure()): then keep the memory alive.
  void wait();
  void wait_for(std::chrono::milliseconds timeout);
  // The result in kolo's own memory. Valid while a copy of this Work lives, until the name is
  // submitted again; without a name, until eight more requests without one are submitted.
  // Throws UsageError before wait() has returned, and for an empty Work.
  [[nodiscard]] std::span<const std::byte> result() const;

 private:
  [[nodiscard]] WorkState& state() const;  // throws UsageError where there is none

  std::shared_ptr<WorkState> state_;  // shared by caller and coordinator, either may let go first
};

}  // namespace kolo
