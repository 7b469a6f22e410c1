#include "engine/work_state.h"

#include "kolo/error.h"
#include "kolo/work.h"

namespace kolo {

void WorkState::complete(std::span<const std::byte> result, std::shared_ptr<void> memory) {
  result_ = result;
  memory_ = std::move(memory);
  finished_.store(true, std::memory_order_release);
}

void WorkState::fail(std::exception_ptr error) {
  error_ = std::move(error);
  finished_.store(true, std::memory_order_release);
}

void WorkState::wait_for(std::chrono::milliseconds timeout) {
  const auto driver = driver_.lock();
  if (!driver && !finished())
    throw UsageError("'" + name_ + "' was still pending when its Context was shut down. Call wait() first");
  if (driver) {  // also when it is finished: see EngineImpl::drive()
    if (!driver->drive_until([this] { return finished(); }, timeout)) {
      const auto whom = driver->whom_for(name_);  // may wait for somebody who is just finishing it
      if (!finished()) {
        throw TimeoutError(whom.ranks, "'" + name_ + "' is not complete after " + std::to_string(timeout.count()) +
                                           " ms: " + whom.text);
      }
    }
  }
  if (!error_) return;
  if (driver) driver->told(error_);
  std::rethrow_exception(error_);
}

std::span<const std::byte> WorkState::result() const {
  if (!finished() || error_) throw UsageError("'" + name_ + "' has no result: wait() has not returned");
  return result_;
}

bool Work::done() const noexcept { return !state_ || state_->finished(); }

void Work::wait() { state().wait(); }

void Work::wait_for(std::chrono::milliseconds timeout) { state().wait_for(timeout); }

std::span<const std::byte> Work::result() const { return state().result(); }

WorkState& Work::state() const {
  if (!state_) throw UsageError("an empty Work belongs to no request: take the one that submit() returns");
  return *state_;
}

}  // namespace kolo
