// What the engine looks at now and then while somebody waits: dead peers, submissions that nobody answers, operations
// that do not end. Under the progress lock.
//
//   time since submit()   half of a warning's time      KOLO_STALL_WARNING     KOLO_TIMEOUT          + kVerdict
//   what happens          the parent hears who of the   the log names them     a named operation is  no answer either:
//                         subtree is missing                                   cancelled             the group ends
#include <algorithm>
#include <chrono>

#include "base/first_failure.h"
#include "base/strings.h"
#include "engine/engine_impl.h"
#include "kolo/error.h"

namespace kolo::engine {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kInterval = 5ms;
constexpr auto kVerdict = 2s;  // how long the root may take to answer

std::string milliseconds_text(Clock::duration duration) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count()) + " ms";
}

std::string who_has_not_submitted(const std::vector<Rank>& missing) {
  if (missing.empty()) return "this rank and the ranks below it have submitted it; rank 0 has not answered";
  return "not submitted by " + base::ranks_text(missing);
}

constexpr const char* kSameRequests = ". Do all ranks submit the same requests?";

}  // namespace

void EngineImpl::check_deadlines() {
  const std::unique_lock lock(progress_lock_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  const auto now = Clock::now();
  if (now - last_watch_ < kInterval) return;
  last_watch_ = now;
  try {
    parts_.transport->check_peers();  // also after the end: what is still to complete needs them
    if (negotiation_.has_ended()) return;
    advance(Visitor::hook);                         // after a long sleep of this process: what came meanwhile counts
    if (negotiation_.has_ended() || held_) return;  // who is late because of what is held has not caused it
    watch_submitted(now);
    watch_awaited(now);
    watch_executing(now);
    watch_plan(now);
  } catch (...) {
    poison_by(std::current_exception());
  }
}

std::chrono::milliseconds EngineImpl::report_after() const {
  const auto& config = *parts_.config;
  return (config.stall_warning.count() > 0 ? std::min(config.stall_warning, config.timeout) : config.timeout) / 2;
}

void EngineImpl::watch_submitted(Clock::time_point now) {
  std::vector<std::string> late;
  for (auto& [name, submission] : submitted_) {
    watch_submission(name, submission, now);
    if (submission.when_listed || submission.cancelled || now - submission.since <= parts_.config->timeout) continue;
    submission.cancelled = true;
    late.push_back(name);
  }
  for (const auto& name : late) negotiation_.cancel(name);  // may change submitted_
}

// Throws TimeoutError when nothing but the end of the group is left: a gradient round that a rank does not enter, or a
// root that does not answer.
void EngineImpl::watch_submission(const std::string& name, Submission& submission, Clock::time_point now) {
  const auto& config = *parts_.config;
  const auto age = now - submission.since;
  if (age > report_after() && !submission.reported) {
    submission.reported = true;
    negotiation_.report(name);
  }
  const bool stalled = config.stall_warning.count() > 0 && age > config.stall_warning && !submission.warned;
  const bool late = age > config.timeout;
  if (!stalled && !late) return;
  const auto missing = negotiation_.missing(name);
  const std::string why = who_has_not_submitted(missing);
  if (stalled && !submission.stall) submission.stall = ask_about(name, missing, false);
  if (stalled && (late || answered(*submission.stall))) {
    submission.warned = true;
    parts_.log(LogLevel::warn, "stall: waited_ms=" + std::to_string(age / 1ms) + ": '" + name + "': " + why +
                                   what_they_say(*submission.stall));
  }
  // Whoever knows who is missing speaks first.
  const bool ours_to_say = submission.when_listed && !missing.empty();
  if (late && (ours_to_say || age > config.timeout + kVerdict)) {
    throw TimeoutError(missing, "rank " + std::to_string(rank()) + ": '" + name + "' timed out after " +
                                    milliseconds_text(age) + ": " + why + kSameRequests);
  }
}

// Others wait for what this rank has not submitted: the parent hears of that too.
void EngineImpl::watch_awaited(Clock::time_point now) {
  const auto names = negotiation_.awaited();
  std::erase_if(awaited_since_, [&](const auto& row) { return std::ranges::find(names, row.first) == names.end(); });
  for (const auto& name : names) {
    auto& since = awaited_since_.try_emplace(name, now).first->second;
    if (since == Clock::time_point::max() || now - since < report_after()) continue;
    since = Clock::time_point::max();  // once
    negotiation_.report(name);
  }
}

void EngineImpl::watch_executing(Clock::time_point now) {
  const auto oldest = executor_.oldest();
  if (!oldest || now - *oldest <= parts_.config->timeout) return;
  const auto missing = executor_.waiting_for();
  throw TimeoutError(missing, "rank " + std::to_string(rank()) + ": an operation in flight timed out after " +
                                  milliseconds_text(now - *oldest) + ": waiting for " + base::ranks_text(missing));
}

// A plan is listed and has no turn: some rank has not come to it, or this one has not enqueued what is before it.
void EngineImpl::watch_plan(Clock::time_point now) {
  if (!plan_turn_ || !plan_turn_->under_way() || now - plan_since_ <= parts_.config->timeout) return;
  auto missing = plan_turn_->waiting_for();
  const std::string why =
      missing.empty() ? "this rank has not enqueued an earlier bucket" : "waiting for " + base::ranks_text(missing);
  if (missing.empty()) missing.push_back(rank());
  throw TimeoutError(missing, "rank " + std::to_string(rank()) +
                                  ": a new plan for gradients on devices timed out after " +
                                  milliseconds_text(now - plan_since_) + ": " + why);
}

void EngineImpl::withdrawn(const Withdrawal& withdrawal) {
  const bool own = std::ranges::find(withdrawal.missing, rank()) != withdrawal.missing.end();
  base::report_first_failure(own ? base::FirstFailure::own : base::FirstFailure::peer);
  const auto found = submitted_.find(withdrawal.name);
  if (found == submitted_.end()) return;
  const auto age = milliseconds_text(Clock::now() - found->second.since);
  const auto text = "rank " + std::to_string(rank()) + ": '" + withdrawal.name + "' timed out after " + age +
                    " and was withdrawn on all ranks: " + who_has_not_submitted(withdrawal.missing) + kSameRequests;
  fail(found->second.pending, std::make_exception_ptr(TimeoutError(withdrawal.missing, text)));
  submitted_.erase(found);
}

// No report has told yet whom of a subtree the wait is for, as watch_submission() is told.
Awaited EngineImpl::whom_for(const std::string& name) {
  const std::scoped_lock lock(progress_lock_);
  if (executor_.running(name)) {
    const auto ranks = executor_.waiting_for();
    return {ranks, "in flight, waiting for " + base::ranks_text(ranks)};
  }
  const auto missing = negotiation_.missing(name);
  if (missing.size() < 2) return {missing, who_has_not_submitted(missing)};
  return {missing, "not submitted by at least one of " + base::ranks_text(missing)};
}

}  // namespace kolo::engine
