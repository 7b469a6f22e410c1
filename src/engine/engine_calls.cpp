// What failures mean for collectives that the program calls directly, of which the engine only knows how many have
// begun.
//
//   a peer fails     it says how many it had come to. Who has begun another one, or does before its program has been
//                    told of the failure, waits for a call that is not made, or for one that is made for something
//                    else: the group ends there, with the failure's text
//   this rank fails  its next call waits until all ranks have heard that, and so cannot meet one of those
//   a peer leaves    likewise: calls that it has not come to are errors
//
// Ranks that fail at the same place (failure_places.h) go on together. The same holds for a reducer that others make
// when a rank has failed before.
#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "engine/engine_impl.h"
#include "kolo/error.h"

namespace kolo::engine {

base::CallLimit::Hooks EngineImpl::call_hooks() {
  return {.listen = [this] { progress_without_waiting(); },
          .settle = [this] { settle_failure(); },
          .overtake = [this](std::uint64_t failure) { end_overtaken(failure); }};
}

void EngineImpl::settle_failure() {
  if (drive_until([this] { return !parts_.calls->held(); }, timeout())) return;
  throw TimeoutError({}, "rank " + std::to_string(rank()) + ": its failure did not reach all ranks within " +
                             std::to_string(timeout().count()) + " ms; until then no collective can begin");
}

void EngineImpl::limit_calls(const Fatal& failure, std::uint64_t number) {
  bool overtaken = false;
  std::vector<Submission> late;
  {
    const std::scoped_lock lock(queue_lock_);
    FailurePlace place{failure, {number}, nullptr, to_exception(failure, number)};
    for (auto* rounds : rounds_) {
      const auto id = rounds->id();
      overtaken |= place.came_before(id) && names_.contains(GradientRounds::table_name_of(id));
      if (failure.failed_round && failure.failed_round->reducer == id) place.rounds = rounds;
    }
    if (!place.told()) late = take_queued();
    overtaken |= places_.add(std::move(place));
  }
  for (auto& submission : late) submission.pending.work->fail(to_exception(failure, number));
  if (overtaken) end_overtaken(failure);
}

// Notes a peer's failure. True: it is at a place from which the program here has gone on; else that is to be told.
bool EngineImpl::has_passed(const Fatal& failure, std::uint64_t number) {
  {
    const std::scoped_lock lock(queue_lock_);
    const FailurePlace* place = places_.join(failure, number);
    if (place != nullptr) return place->told();
  }
  limit_calls(failure, number);
  return false;
}

// What this rank has submitted by name since the place of a failure does not end with it.
void EngineImpl::submit_again() {
  for (auto& [name, submission] : submitted_) {
    if (submission.when_listed) continue;
    submission.reported = false;
    submission.cancelled = false;
    negotiation_.submit(submission.entry);
  }
}

// Progress and queue lock held.
bool EngineImpl::idle_since_failure() const {
  return own_failure_.has_value() && own_failed_after_ == parts_.calls->reached();
}

void EngineImpl::told(const std::exception_ptr& error) {
  { const std::scoped_lock lock(progress_lock_); }  // whoever has ended the Work is done with it, and with the error
  const std::scoped_lock lock(queue_lock_);
  try {
    std::rethrow_exception(error);
  } catch (const PeerFailedError& failure) {
    unnamed_.disable();
    places_.tell(failure.failure());
    remember(failure.what());
  } catch (const TimeoutError& timeout) {
    unnamed_.disable();
    if (!timeout.missing().empty()) remember(timeout.what());
  } catch (const UsageError& refused) {
    remember(refused.what());
  } catch (const std::exception&) {  // no other rank's doing
  }
}

// queue_lock_ held.
void EngineImpl::remember(const std::string& text) {
  constexpr std::size_t kRemembered = 64;  // a program that keeps an error longer than so many others tells it anew
  if (told_.size() == kRemembered) told_.pop_front();
  told_.push_back(text);
}

// The program has begun something without knowing of that failure.
void EngineImpl::end_overtaken(std::uint64_t number) {
  std::optional<Fatal> failure;
  {
    const std::scoped_lock lock(queue_lock_);
    if (const auto* untold = places_.find(number)) failure = untold->failure;
  }
  if (!failure) return;
  {
    const std::scoped_lock lock(progress_lock_);
    end_overtaken(*failure);
  }
  notify();
}

// Progress lock held.
void EngineImpl::end_overtaken(const Fatal& failure) {
  Fatal fatal{FatalKind::failed, failure.ranks, {}};
  fatal.text = failure.text + " (rank " + std::to_string(rank()) + " had begun a collective that " +
               base::ranks_text(failure.ranks) + " did not reach, so the group has ended)";
  fatal.calls = failure.calls;
  negotiation_.end(fatal, rank());
}

// What all ranks have begun completes, if it is known how far they have come.
void EngineImpl::end_calls(const Fatal& fatal, const std::exception_ptr& error) {
  const bool says_how_far = fatal.kind == FatalKind::peer_left || fatal.kind == FatalKind::failed;
  const bool left_here = fatal.kind == FatalKind::peer_left && !fatal.ranks.empty() && fatal.ranks.front() == rank();
  constexpr std::uint64_t kForGood = 0;  // no failure's number
  if (!left_here) parts_.calls->limit(says_how_far ? fatal.calls : 0, kForGood, error);
  parts_.calls->release();
}

void EngineImpl::heard_by_all(std::uint64_t epoch) {
  if (own_failed_at_ != 0 && epoch >= own_failed_at_) parts_.calls->release();
}

// What the others hear when this rank leaves: that it has failed, if the program has asked for nothing since.
void EngineImpl::say_why(Fatal& leaving) {
  const std::string who = "rank " + std::to_string(rank());
  leaving.text = who + " has shut down its Context";
  const std::scoped_lock lock(queue_lock_);
  leaving.after_failure = idle_since_failure();
  if (leaving.after_failure) {
    leaving.text = "training code failed on " + who + ": " + *own_failure_ + " (" + leaving.text + ")";
  } else {
    leaving.text += ". Do all ranks make the same calls and the same number of steps?";
  }
}

}  // namespace kolo::engine
