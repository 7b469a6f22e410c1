#include "nccl/comm_handle.h"

#include <algorithm>
#include <thread>

#include "kolo/error.h"

namespace kolo::nccl {
namespace {

// NCCL has nothing to sleep on: looks at once, then ever more seldom, up to once in a millisecond.
class Patience {
 public:
  void wait() {
    if (looks_++ < 16) {
      std::this_thread::yield();
      return;
    }
    std::this_thread::sleep_for(nap_);
    nap_ = std::min<std::chrono::microseconds>(2 * nap_, std::chrono::milliseconds(1));
  }

 private:
  int looks_ = 0;
  std::chrono::microseconds nap_{10};
};

}  // namespace

CommHandle::CommHandle(const CommParts& parts) : parts_(parts) {
  CommConfig config;
  config.blocking = 0;
  if (parts.max_ctas > 0) config.max_ctas = parts.max_ctas;
  const base::Deadline deadline(parts.timeout);
  const Result result = api().init(&comm_, parts.size, parts.id, parts.rank, &config);
  if (result != Result::success && result != Result::in_progress) fail(result, "ncclCommInitRankConfig");
  settle("making a communicator of " + std::to_string(parts.size) + " ranks", deadline);
}

void CommHandle::end() noexcept {
  if (comm_ == nullptr) return;
  if (!finalized()) return give_up();
  (void)api().destroy(comm_);
  comm_ = nullptr;
}

bool CommHandle::finalized() noexcept {
  const base::Deadline deadline(parts_.farewell);
  Patience patience;
  Result result = api().finalize(comm_);
  while (result == Result::in_progress && !deadline.passed()) {
    patience.wait();
    result = state();
  }
  return result == Result::success;
}

Result CommHandle::state() const {
  if (comm_ == nullptr) return Result::success;
  Result error = Result::success;
  const Result result = api().async_error(comm_, &error);
  return result == Result::success ? error : result;
}

void CommHandle::settle(std::string_view what, const base::Deadline& deadline) {
  Patience patience;
  for (;;) {
    const Result result = state();
    if (result == Result::success) return;
    if (result != Result::in_progress) fail(result, what);
    if (deadline.passed()) time_out(what);
    patience.wait();
  }
}

// The group is left before anything else: an abort inside of it would only be queued.
void CommHandle::issue(std::string_view what, const Calls& calls) {
  if (failed()) std::rethrow_exception(failure_);
  if (comm_ == nullptr) throw UsageError("NCCL, " + std::string(what) + ": the communicator has been ended");
  const base::Deadline deadline(parts_.timeout);
  check(api().group_start(), "ncclGroupStart");
  Result result = Result::success;
  std::exception_ptr thrown;
  try {
    result = calls(api(), comm_);
  } catch (...) {
    thrown = std::current_exception();
  }
  const Result ended = api().group_end();
  if (thrown != nullptr) fail(thrown);
  check(result, what);
  check(ended, what);
  settle(what, deadline);
}

void CommHandle::check(Result result, std::string_view call) {
  if (result != Result::success && result != Result::in_progress) fail(result, call);
}

void CommHandle::poll(std::string_view what) {
  if (failed()) std::rethrow_exception(failure_);
  const Result result = state();
  if (result != Result::success && result != Result::in_progress) fail(result, what);
}

void CommHandle::time_out(std::string_view what) {
  fail(std::make_exception_ptr(
      TimeoutError({}, "NCCL, " + std::string(what) + ": not complete after " + std::to_string(parts_.timeout.count()) +
                           " ms on rank " + std::to_string(parts_.rank) + " of " + std::to_string(parts_.size) +
                           "; NCCL does not say for which rank it waits. The communicator was aborted")));
}

void CommHandle::fail(Result result, std::string_view call) {
  std::string text = "NCCL, " + std::string(call) + ": " + api().error_text(result);
  const char* last = api().last_error(comm_);
  if (last != nullptr && *last != '\0') text += " (" + std::string(last) + ")";
  text += "; on rank " + std::to_string(parts_.rank) + " of " + std::to_string(parts_.size);
  fail(std::make_exception_ptr(BackendError(text)));
}

void CommHandle::fail(std::exception_ptr error) {
  if (!failed()) failure_ = std::move(error);
  give_up();
  std::rethrow_exception(failure_);
}

void CommHandle::give_up() noexcept {
  if (comm_ == nullptr) return;
  const Comm ended = comm_;
  comm_ = nullptr;
  (void)api().abort_comm(ended);
}

}  // namespace kolo::nccl
