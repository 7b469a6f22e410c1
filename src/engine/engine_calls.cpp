// What failures mean for collectives that the program calls directly, of which the engine only knows how many have
// begun.
//
//   a peer fails     it says how many it had come to. Who has begun another one, or does before its program has been
//                    told of the failure, waits for a call that is not made, or for one that is made for something
//                    else: the group ends there, with the failure's text
//   this rank fails  its next call waits until all ranks have heard that, and so cannot meet one of those
//   a peer leaves    likewise: calls that it has not come to are errors
#include <algorithm>
#include <utility>

#include "engine/engine_impl.h"
#include "kolo/error.h"

namespace kolo::engine {

void EngineImpl::settle_failure() {
  if (drive_until([this] { return !parts_.calls->held(); }, timeout())) return;
  throw TimeoutError({}, "rank " + std::to_string(rank()) +
                             ": not all ranks have heard of its failure, before which no collective can begin");
}

// Training code is told by the end of the round that has failed.
void EngineImpl::limit_calls(const Fatal& failure, std::uint64_t number, const std::exception_ptr& error) {
  bool overtaken = false;
  {
    const std::scoped_lock lock(queue_lock_);
    UntoldFailure untold{failure, number, nullptr, 0};
    for (auto* rounds : rounds_) {
      if (rounds->id() >= failure.rounds.size() || failure.rounds[rounds->id()] == kNoRound) continue;
      untold.rounds = rounds;
      untold.round = failure.rounds[rounds->id()];
    }
    if (untold.told()) return;
    overtaken = std::ranges::any_of(rounds_, [&](const auto* rounds) {
      return untold.came_before(rounds->id()) && names_.contains(GradientRounds::table_name_of(rounds->id()));
    });
    overtaken |= parts_.calls != nullptr && parts_.calls->limit(failure.calls, number, error);
    untold_.push_back(std::move(untold));
  }
  if (overtaken) end_overtaken(failure);
}

// queue_lock_ held. The failure because of which no peer comes to make reducer `id`; 0: there is none.
std::uint64_t EngineImpl::failure_before(std::size_t id) const {
  const auto found = std::ranges::find_if(untold_, [&](const auto& untold) { return untold.came_before(id); });
  return found == untold_.end() ? 0 : found->number;
}

// queue_lock_ held.
void EngineImpl::lift_told() {
  std::erase_if(untold_, [this](const UntoldFailure& untold) {
    if (!untold.told()) return false;
    if (parts_.calls != nullptr) parts_.calls->lift(untold.number);
    return true;
  });
}

void EngineImpl::told(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const PeerFailedError& failure) {
    const std::scoped_lock lock(queue_lock_);
    std::erase_if(untold_, [&](const UntoldFailure& untold) {
      if (untold.number != failure.failure() || untold.rounds != nullptr) return false;
      if (parts_.calls != nullptr) parts_.calls->lift(untold.number);
      return true;
    });
  } catch (const std::exception&) {  // tells of no failure
  }
}

// The program's thread has begun a call without knowing of that failure.
void EngineImpl::end_overtaken(std::uint64_t number) {
  std::optional<Fatal> failure;
  {
    const std::scoped_lock lock(queue_lock_);
    for (const auto& untold : untold_) {
      if (untold.number == number) failure = untold.failure;
    }
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
  Fatal fatal;
  fatal.kind = FatalKind::failed;
  fatal.ranks = failure.ranks;
  fatal.text = failure.text + " (rank " + std::to_string(rank()) +
               " had gone on to what the others do not come to, so the group has ended)";
  fatal.calls = failure.calls;
  negotiation_.end(fatal, rank());
}

// What all ranks have begun completes.
void EngineImpl::end_calls(const Fatal& fatal, const std::exception_ptr& error) {
  if (parts_.calls == nullptr) return;
  parts_.calls->release();
  const bool own_leave = fatal.kind == FatalKind::peer_left && !fatal.ranks.empty() && fatal.ranks.front() == rank();
  const bool says_how_far = fatal.kind == FatalKind::peer_left || fatal.kind == FatalKind::failed;
  constexpr std::uint64_t kForGood = 0;  // no failure's number
  if (says_how_far && !own_leave) parts_.calls->limit(fatal.calls, kForGood, error);
}

void EngineImpl::heard_by_all(std::uint64_t epoch) {
  if (parts_.calls != nullptr && own_failed_at_ != 0 && epoch >= own_failed_at_) parts_.calls->release();
}

// --- a rank that leaves because of its failure says so ---

void EngineImpl::note_own_failure(const std::string& text) {
  const std::scoped_lock lock(queue_lock_);
  own_failure_ = OwnFailure{text, parts_.calls != nullptr ? parts_.calls->reached() : 0};
}

// Empty: none but that the program has come to its end.
std::string EngineImpl::reason_to_leave() {
  const std::scoped_lock lock(queue_lock_);
  if (!own_failure_ || (parts_.calls != nullptr && own_failure_->calls != parts_.calls->reached())) return "";
  const std::string who = "rank " + std::to_string(rank());
  return "training code failed on " + who + ": " + own_failure_->text + " (" + who + " has shut down its Context)";
}

}  // namespace kolo::engine
