#include "nccl/comm_handle.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "kolo/error.h"

namespace kolo::nccl {
namespace {

constexpr std::chrono::milliseconds kLookInterval{1};  // between two questions whether peers live

// NCCL has nothing to sleep on: looks at once, then ever more seldom, up to once in a millisecond.
class Patience {
 public:
  // True: it has slept.
  bool wait() {
    if (looks_++ < 16) {
      std::this_thread::yield();
      return false;
    }
    std::this_thread::sleep_for(nap_);
    nap_ = std::min<std::chrono::microseconds>(2 * nap_, std::chrono::milliseconds(1));
    return true;
  }

 private:
  int looks_ = 0;
  std::chrono::microseconds nap_{10};
};

// Makes a call that may never return, in a thread of its own, and waits for it at most `limit`. False: the call
// continues, with what it owns. REQUIRES: it uses nothing else.
bool returns_within(std::chrono::milliseconds limit, std::function<void()> call) noexcept {
  try {
    auto task = std::make_shared<std::packaged_task<void()>>(std::move(call));
    const std::future<void> done = task->get_future();
    std::thread([task = std::move(task)] { (*task)(); }).detach();
    return done.wait_for(limit) == std::future_status::ready;
  } catch (const std::exception&) {  // no memory, or no thread: nothing has been called
    return false;
  }
}

Result state_of(const NcclApi& api, Comm comm) {
  Result error = Result::success;
  const Result result = api.async_error(comm, &error);
  return result == Result::success ? error : result;
}

bool finalized(const NcclApi& api, Comm comm, const base::Deadline& deadline) {
  Result result = api.finalize(comm);
  Patience patience;
  while (result == Result::in_progress && !deadline.passed()) {
    (void)patience.wait();
    result = state_of(api, comm);
  }
  return result == Result::success;
}

}  // namespace

CommHandle::CommHandle(const CommParts& parts) : parts_(parts) {
  CommConfig config;
  config.blocking = 0;
  if (parts.max_ctas > 0) config.max_ctas = parts.max_ctas;
  const base::Deadline deadline(parts.timeout);
  const Result result = api().init(&comm_, parts.size, parts.id, parts.rank, &config);
  if (result != Result::success && result != Result::in_progress) fail(result, "ncclCommInitRankConfig");
  settle("creating a communicator of " + std::to_string(parts.size) + " ranks", deadline);
}

void CommHandle::end(const std::function<bool()>& quiet) noexcept {
  if (comm_ == nullptr) return;
  const base::Deadline deadline(parts_.farewell);
  const auto in_order = std::make_shared<std::atomic<bool>>(false);
  if (comes_to_rest(quiet, deadline)) {
    // NCCL wants registrations to end before the communicator is finalized, while its connections are there.
    const auto close = [in_order, deadline, buffers = std::exchange(buffers_, {})](const NcclApi& api, Comm comm) {
      for (const auto& [memory, registration] : buffers) (void)api.deregister_buffer(comm, registration);
      in_order->store(finalized(api, comm, deadline));
      (void)(in_order->load() ? api.destroy(comm) : api.abort_comm(comm));
    };
    leave_to(parts_.farewell + parts_.abort_limit, close);
  }
  if (in_order->load()) return;
  // The device passes what is aborted as if it had been carried out: whoever asks for it has to hear of the abort.
  failure_ =
      std::make_exception_ptr(BackendError("NCCL: the communicator was destroyed while operations were in flight on "
                                           "this rank or another rank; they were aborted"));
  give_up();
}

bool CommHandle::comes_to_rest(const std::function<bool()>& quiet, const base::Deadline& deadline) const noexcept {
  Patience patience;
  try {
    while (quiet && !quiet()) {
      const Result result = state();
      if (deadline.passed() || (result != Result::success && result != Result::in_progress)) return false;
      (void)patience.wait();
    }
    return true;
  } catch (const std::exception&) {  // the device has failed
    return false;
  }
}

// "rank 1 of 2", or, where it is another one in the world, "rank 3 (1 of the 2 of its group)".
std::string CommHandle::who() const {
  const std::string size = std::to_string(parts_.size);
  const std::string own = std::to_string(parts_.rank);
  if (!parts_.world_rank.has_value()) return "rank " + own + " of " + size;
  return "rank " + std::to_string(*parts_.world_rank) + " (" + own + " of the " + size + " of its group)";
}

Result CommHandle::state() const { return comm_ == nullptr ? Result::success : state_of(api(), comm_); }

void CommHandle::look_for_peers() {
  if (!parts_.check_peers) return;
  try {
    parts_.check_peers();
  } catch (...) {
    fail(std::current_exception());
  }
}

void CommHandle::settle(std::string_view what, const base::Deadline& deadline) {
  Patience patience;
  for (;;) {
    const Result result = state();
    if (result == Result::success) return;
    if (result != Result::in_progress) fail(result, what);
    if (deadline.passed()) time_out(what);
    if (patience.wait()) look_for_peers();
  }
}

// The group is left before anything else: an abort inside of it would only be queued.
void CommHandle::issue(std::string_view what, const Calls& calls) {
  if (failed()) std::rethrow_exception(failure_);
  if (comm_ == nullptr) throw UsageError("NCCL, " + std::string(what) + ": the communicator was destroyed");
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
  // Every operation in flight comes here again and again; asking costs a look at the network.
  const auto now = base::Deadline::Clock::now();
  if (comm_ == nullptr || now - last_look_ < kLookInterval) return;
  last_look_ = now;
  look_for_peers();
}

bool CommHandle::register_buffer(void* memory, std::size_t bytes) {
  void* registration = nullptr;
  if (api().register_buffer(comm_, memory, bytes, &registration) != Result::success) return false;
  if (registration != nullptr) buffers_[memory] = registration;
  return true;
}

void CommHandle::deregister_buffer(const void* memory) noexcept {
  const auto found = buffers_.find(memory);
  if (found == buffers_.end()) return;
  (void)api().deregister_buffer(comm_, found->second);
  buffers_.erase(found);
}

void CommHandle::time_out(std::string_view what) {
  fail(std::make_exception_ptr(TimeoutError(
      {}, "NCCL, " + std::string(what) + ": not complete after " + std::to_string(parts_.timeout.count()) + " ms on " +
              who() + "; the communicator was aborted. NCCL does not name the missing rank: check all ranks' logs")));
}

void CommHandle::fail(Result result, std::string_view call) {
  std::string text = "NCCL, " + std::string(call) + ": " + api().error_text(result);
  const char* last = api().last_error(comm_);
  if (last != nullptr && *last != '\0') text += " (" + std::string(last) + ")";
  text += "; on " + who();
  fail(std::make_exception_ptr(BackendError(text)));
}

void CommHandle::fail(std::exception_ptr error) {
  if (!failed()) failure_ = std::move(error);
  give_up();
  std::rethrow_exception(failure_);
}

void CommHandle::give_up() noexcept {
  if (comm_ == nullptr) return;
  if (parts_.before_abort) parts_.before_abort();
  buffers_.clear();  // an abort ends registrations too
  leave_to(parts_.abort_limit, [](const NcclApi& api, Comm comm) { (void)api.abort_comm(comm); });
}

// In a thread of its own: nothing bounds the time that NCCL takes for an end, and callers may hold locks.
void CommHandle::leave_to(std::chrono::milliseconds limit, const Ending& ending) noexcept {
  const auto call = [library = parts_.library, enter = parts_.enter_thread, comm = std::exchange(comm_, nullptr),
                     ending] {
    if (enter) enter();
    ending(library->api(), comm);
  };
  (void)returns_within(limit, call);
}

}  // namespace kolo::nccl
