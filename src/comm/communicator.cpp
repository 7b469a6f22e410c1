// The blocking forms: start, then drive.
#include "kolo/spi/communicator.h"

#include <algorithm>
#include <thread>

#include "base/deadline.h"
#include "base/first_failure.h"
#include "base/strings.h"
#include "kolo/error.h"

namespace kolo {
namespace {

constexpr std::chrono::microseconds kShortestNap{30};
constexpr std::chrono::microseconds kLongestNap{1000};

std::string names_of(const std::vector<Rank>& ranks) {
  return ranks.empty() ? "unknown ranks" : base::ranks_text(ranks);
}

}  // namespace

std::unique_ptr<Operation> Communicator::start_segmented(const AllreduceOptions& /*options*/,
                                                         const SegmentedBuffer& /*scattering*/) {
  throw UsageError("segmented allreduce: all ranks must share one host's memory, or each rank must have its own host");
}

void Communicator::require_open() const {
  if (!closed_) return;
  throw UsageError("rank " + std::to_string(rank()) + ": a collective was called after Context::shutdown()");
}

// True once complete. Looks afresh as long as something moves.
bool Communicator::spin(Operation& operation) {
  const int spins = spin_iterations();
  for (int i = 0; i < spins; ++i) {
    if (operation.advance()) return true;
    if (made_progress()) i = 0;
  }
  return false;
}

// Spinning is for peers that run on other cores at this moment; yielding for peers that wait for this core; sleeping
// for peers that are far away or late, and the longer, the later they are: what comes may ring no bell. A late peer
// that has come is not late any more: patience begins anew.
void Communicator::drive(Operation& operation, std::chrono::milliseconds timeout, std::string_view what) {
  require_open();
  if (spin(operation)) return;
  const base::Deadline deadline(timeout);
  const base::Deadline patience(stall_warning_);
  bool warned = !tell_stall_;
  std::chrono::microseconds nap = kShortestNap;
  base::Deadline yielding(yield_time());
  while (!operation.advance()) {
    progress();
    if (made_progress()) {
      if (spin(operation)) return;
      yielding = base::Deadline(yield_time());
      nap = kShortestNap;
    }
    if (!yielding.passed()) {
      std::this_thread::yield();
      continue;
    }
    if (deadline.passed()) {
      std::vector<Rank> missing = operation.waiting_for();
      std::string text = std::string(what) + ": not complete after " + std::to_string(timeout.count()) +
                         " ms on rank " + std::to_string(rank()) + "; waiting for " + names_of(missing);
      throw TimeoutError(std::move(missing), text);
    }
    if (!warned && patience.passed()) {
      warned = true;
      tell_stall_("stall: waited_ms=" + std::to_string(stall_warning_.count()) + ": " + std::string(what) +
                  ": waiting for " + names_of(operation.waiting_for()));
    }
    wait_for_activity(nap);
    nap = std::min(2 * nap, kLongestNap);
  }
}

void Communicator::warn_of_stalls(std::chrono::milliseconds after, std::function<void(const std::string&)> tell) {
  stall_warning_ = after;
  tell_stall_ = std::move(tell);
}

template <class Start>
void Communicator::run(const Start& start, Timeout limit, std::string_view what) {
  const std::chrono::milliseconds timeout = limit.value_or(default_timeout_);
  start_limit_ = timeout;
  std::unique_ptr<Operation> operation;
  try {
    operation = start();
  } catch (...) {
    start_limit_ = std::chrono::milliseconds::max();
    throw;
  }
  start_limit_ = std::chrono::milliseconds::max();
  try {
    drive(*operation, timeout, what);
  } catch (const TimeoutError& error) {  // nobody has the operation any more
    if (!error.missing().empty()) base::report_first_failure(base::FirstFailure::peer);
    end_by(std::current_exception());
    throw;
  }
}

void Communicator::allreduce(const AllreduceOptions& options, Timeout timeout) {
  run([&] { return start(options); }, timeout, "allreduce");
}

void Communicator::broadcast(const BroadcastOptions& options, Timeout timeout) {
  run([&] { return start(options); }, timeout, "broadcast from root " + std::to_string(options.root));
}

void Communicator::allgather(const AllgatherOptions& options, Timeout timeout) {
  run([&] { return start(options); }, timeout, "allgather");
}

void Communicator::reduce_scatter(const ReduceScatterOptions& options, Timeout timeout) {
  run([&] { return start(options); }, timeout, "reduce_scatter");
}

void Communicator::barrier(Timeout timeout) {
  run([&] { return start_barrier(); }, timeout, "barrier");
}

}  // namespace kolo
