// How the engine comes to an end, and how training code that throws ends a step.
//
//   training code throws      fail_round(): announced in sequence, failed() on all ranks, the round ends as failed
//   a peer is lost, ...       poison_by(), ended(): everything pending fails, later calls rethrow
//   NCCL, MPI, a device       poison_by(): held for a while, in which whoever has died is found; then as above
#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

#include "base/first_failure.h"
#include "base/strings.h"
#include "engine/engine_impl.h"
#include "engine/message_check.h"
#include "kolo/error.h"

namespace kolo::engine {
namespace {

using namespace std::chrono_literals;

constexpr auto kFailTimeout = 10s;   // how long a failing rank stays to tell its peers
constexpr auto kReasonTimeout = 2s;  // how long it tries to say why the group has ended
constexpr auto kEchoTimeout = 2s;    // how long it waits for the root to have heard

// Who waited for others in vain has not failed first.
base::FirstFailure whose(const std::exception& error, Rank rank) {
  const auto* timeout = dynamic_cast<const TimeoutError*>(&error);
  const bool others = timeout != nullptr && !timeout->missing().empty() &&
                      std::ranges::find(timeout->missing(), rank) == timeout->missing().end();
  return others ? base::FirstFailure::peer : base::FirstFailure::own;
}

}  // namespace

// --- training code throws ---

void EngineImpl::round_opened(std::size_t id) {
  const std::scoped_lock lock(queue_lock_);
  history_.opened(id);
}

void EngineImpl::round_ended(std::size_t id, bool failed) {
  const std::scoped_lock lock(queue_lock_);
  history_.ended(id, failed);
  own_failure_.reset();
  places_.tell_of_rounds();
}

// The reducer of this thread that peers wait for, or will: the one that came next when the program was here before.
// Where it never was: one whose round is open, else one that is behind. Null: none.
GradientRounds* EngineImpl::expected_reducer(bool among_open) {
  const std::scoped_lock lock(progress_lock_);
  std::vector<GradientRounds*> mine;
  std::ranges::copy_if(rounds_, std::back_inserter(mine), [&](const GradientRounds* rounds) {
    return rounds->mine() && (rounds->round_to_end() || !among_open);
  });
  const auto by_id = [&](std::size_t id) { return std::ranges::find(mine, id, &GradientRounds::id); };
  std::optional<std::size_t> next;
  {
    const std::scoped_lock queue(queue_lock_);
    const auto* end = history_.next([&](std::size_t id) { return by_id(id) != mine.end(); });
    if (end != nullptr) next = end->id;
  }
  if (next) return *by_id(*next);
  const auto order = [](const GradientRounds* rounds) {
    return std::tuple(!rounds->round_to_end(), rounds->rounds_finished(), rounds->id());
  };
  const auto found = std::ranges::min_element(mine, {}, order);
  return found == mine.end() ? nullptr : *found;
}

void EngineImpl::announce_failure(const std::exception& error, const GradientRounds* rounds) {
  base::report_first_failure(whose(error, rank()));
  Fatal failure{FatalKind::failed, {rank()}, error.what()};
  if (rounds != nullptr) failure.failed_round = FailedRound{rounds->id(), rounds->rounds_finished()};
  std::uint64_t seen = 0;
  {
    const std::scoped_lock lock(progress_lock_);
    if (negotiation_.has_ended()) return;
    seen = own_failures_.load();
    own_failed_at_ = 0;
    failure.reducers = reducers_made_;
    failure.heard = negotiation_.epoch();
    parts_.calls->hold();
    {
      const std::scoped_lock queue(queue_lock_);
      failure.calls = own_failed_after_ = parts_.calls->reached();
      failure.answered = places_.fail(failure);
    }
    drain();  // what was submitted before it ends with it
    negotiation_.fail(failure);
  }
  // It comes back in sequence: what this rank submits afterwards belongs to the time after the failure.
  drive_until([&] { return own_failures_.load() != seen || current_fatal(); }, kEchoTimeout);
  // What was listed before it is executed by everyone; then all names of this rank are free.
  drive_until([&] { return executing_.load() == 0; }, kFailTimeout);
}

// A peer failed before its next round, of which `error`, or what it is a copy of, has told an operation by name here:
// that round ends on all ranks. Only an error of that very failure tells of it: the peer may be a failure ahead.
GradientRounds* EngineImpl::round_of_failure(const std::exception& error) {
  const auto* told = dynamic_cast<const PeerFailedError*>(&error);
  const std::scoped_lock lock(queue_lock_);
  const auto* untold = told != nullptr ? places_.find(told->failure()) : nullptr;
  const bool tells = untold != nullptr && untold->rounds != nullptr;
  return tells && untold->rounds->mine() ? untold->rounds : nullptr;
}

void EngineImpl::end_round(const std::exception& error) {
  {
    const std::scoped_lock lock(progress_lock_);
    if (negotiation_.has_ended()) return;
    failing_ = error.what();
  }
  const bool known = known_to_peers(error);
  auto* rounds = known ? round_of_failure(error) : expected_reducer();
  if (!known) announce_failure(error, rounds);
  round_timeout_.store(std::min<std::chrono::milliseconds>(kFailTimeout, timeout()));
  if (rounds != nullptr) {
    doom_companions(*rounds);
  } else if (known) {
    rounds = expected_reducer(true);  // this rank was told by the round that failed: what is beside that is open
  }
  fail_open_rounds(rounds, error.what());
}

// Whether the peers have had this error, or what it is a copy of. A deadline may have been this rank's alone, and a
// program may throw errors of these types itself: only those are known that the engine has told.
bool EngineImpl::known_to_peers(const std::exception& error) {
  if (dynamic_cast<const MismatchError*>(&error) != nullptr || dynamic_cast<const PeerLostError*>(&error) != nullptr) {
    return true;
  }
  const bool may_be_told = dynamic_cast<const PeerFailedError*>(&error) != nullptr ||  //
                           dynamic_cast<const TimeoutError*>(&error) != nullptr ||     //
                           dynamic_cast<const UsageError*>(&error) != nullptr;
  const std::string_view text = error.what();
  const std::scoped_lock lock(queue_lock_);
  return may_be_told && std::ranges::any_of(told_, [&](const auto& each) { return text.find(each) != text.npos; });
}

// What would be open on the peers when `first` ends, if the program went on as before: whether or not anybody has
// opened it, the program begins anew after it.
void EngineImpl::doom_companions(const GradientRounds& first) {
  const std::scoped_lock lock(progress_lock_);
  std::vector<std::size_t> beside;
  {
    const std::scoped_lock queue(queue_lock_);
    beside = history_.beside(first.id());
  }
  for (auto* rounds : rounds_) {
    if (rounds->mine() && std::ranges::find(beside, rounds->id()) != beside.end()) rounds->doom();
  }
}

// Of this thread, as the one that asks is. One backward pass opens the rounds of several optimizers.
std::vector<std::uint32_t> EngineImpl::open_beside(std::size_t id) {
  const std::scoped_lock lock(progress_lock_);
  std::vector<std::uint32_t> ids;
  for (const auto* rounds : rounds_) {
    if (rounds->id() != id && rounds->mine() && rounds->round_to_end())
      ids.push_back(static_cast<std::uint32_t>(rounds->id()));
  }
  return ids;
}

// All that are open, on all ranks: none of them can end well.
void EngineImpl::fail_open_rounds(GradientRounds* first, const std::string& text) {
  for (auto* rounds = first; rounds != nullptr; rounds = expected_reducer(true)) {
    try {
      rounds->fail(text);
    } catch (const PeerFailedError&) {  // as it must: everyone knows
    } catch (const MismatchError&) {    // it has ended all the same
    }
  }
}

void EngineImpl::fail_round(const std::exception& error) noexcept {
  if (size() > 1) unnamed_.disable();
  try {
    end_round(error);
  } catch (const std::exception&) {
    // PeerFailedError: everyone knows. Anything else: the peers have seen it too, and the caller's own exception goes
    // on.
  }
  round_timeout_.store(timeout());
  {
    const std::scoped_lock lock(progress_lock_);
    failing_.clear();
  }
  drop_orphans();
  if (known_to_peers(error)) return;
  const std::scoped_lock lock(queue_lock_);
  own_failure_ = error.what();
}

// Until the program of this rank has been told, its operations by name fail: those that are pending, also the ones that
// no progress has seen yet (limit_calls()), and those to come (enqueue()). Under one lock, so that none slips through
// between the two.
void EngineImpl::failed(const Fatal& failure) {
  const bool own = failure.ranks.front() == rank();
  const std::uint64_t number = negotiation_.epoch();
  if (own) {
    ++own_failures_;
    own_failed_at_ = number;
    const std::scoped_lock lock(queue_lock_);
    places_.came_back(number);
  } else {
    base::report_first_failure(base::FirstFailure::peer);
    if (has_passed(failure, number)) return submit_again();
  }
  fail_unlisted(to_exception(failure, number), false);
}

// queue_lock_ held: what is queued by name; rounds stay, and end in their own way.
std::vector<Submission> EngineImpl::take_queued() {
  const auto first =
      std::stable_partition(queue_.begin(), queue_.end(), [](const auto& each) { return bool(each.when_listed); });
  std::vector<Submission> taken(std::make_move_iterator(first), std::make_move_iterator(queue_.end()));
  queue_.erase(first, queue_.end());
  queued_.store(static_cast<int>(queue_.size()));
  for (const auto& submission : taken) names_.erase(submission.pending.request.name);
  return taken;
}

// --- the group ends ---

std::exception_ptr EngineImpl::to_exception(const Fatal& fatal, std::uint64_t failure) const {
  const bool of_this_rank = !fatal.ranks.empty() && fatal.ranks.front() == rank();
  switch (fatal.kind) {
    case FatalKind::peer_lost:
      if (of_this_rank) {
        return std::make_exception_ptr(
            PeerLostError(rank(), "the other ranks have excluded this rank, which must end: " + fatal.text));
      }
      [[fallthrough]];
    case FatalKind::peer_left:
      if (of_this_rank) return std::make_exception_ptr(UsageError("the Context of this rank has been shut down"));
      if (fatal.after_failure) return std::make_exception_ptr(PeerFailedError(fatal.ranks, fatal.text));
      return std::make_exception_ptr(PeerLostError(fatal.ranks.empty() ? -1 : fatal.ranks.front(), fatal.text));
    case FatalKind::timeout:
      return std::make_exception_ptr(TimeoutError(fatal.ranks, fatal.text));
    case FatalKind::failed: {
      const auto text = "training code failed on " + base::ranks_text(fatal.ranks) + ": " + fatal.text;
      return std::make_exception_ptr(PeerFailedError(fatal.ranks, text, failure));
    }
    case FatalKind::backend:
      break;
  }
  return std::make_exception_ptr(BackendError(fatal.text));
}

// What another library refuses may be a peer's death, which it has noticed before anybody has said whose: NCCL sees a
// connection close. Then it is not this rank's failure, and who is lost is known soon.
// True when that has changed anything.
bool EngineImpl::poison_by(const std::exception_ptr& error) {
  const bool had_ended = negotiation_.has_ended();
  const auto own = [&](const std::exception& failure) {
    return Fatal{FatalKind::backend, {rank()}, "rank " + std::to_string(rank()) + ": " + failure.what()};
  };
  Fatal fatal;
  bool may_be_a_death = false;
  try {
    std::rethrow_exception(error);
  } catch (const PeerLostError& lost) {
    fatal = {FatalKind::peer_lost, {lost.rank()}, lost.what()};
    hear_last_words();
    if (farewell_ == lost.rank()) return !had_ended;  // it is gone, and has said so
  } catch (const TimeoutError& timeout) {
    fatal = {FatalKind::timeout, timeout.missing(), timeout.what()};
  } catch (const DamagedMessage& damage) {
    fatal = own(damage);
  } catch (const BackendError& refusal) {
    fatal = own(refusal);
    may_be_a_death = parts_.transport != nullptr && parts_.death_notice.count() > 0;
  } catch (const std::exception& other) {
    fatal = own(other);
  }
  if (!may_be_a_death || (negotiation_.has_ended() && !completing())) {
    end_by(fatal);
    return true;
  }
  if (held_) return false;
  held_ = HeldFailure{std::move(fatal), std::chrono::steady_clock::now() + parts_.death_notice};
  return true;
}

// A rank that ends with the group has said why, and that is the cause, not its going.
void EngineImpl::hear_last_words() noexcept {
  if (!control_ || negotiation_.has_ended()) return;
  try {
    receive();
  } catch (const std::exception&) {  // nothing more to hear
  }
}

void EngineImpl::end_by(const Fatal& fatal) {
  negotiation_.has_ended() ? end_the_rest(fatal) : negotiation_.end(fatal, rank());
}

// Throws PeerLostError when somebody is found lost; when nobody is in time, the failure is what it seemed to be.
void EngineImpl::judge_held_failure() {
  parts_.transport->check_peers();
  if (std::chrono::steady_clock::now() >= held_->until) end_held();
}

void EngineImpl::end_held() {
  const auto held = std::exchange(held_, std::nullopt);
  end_by(held->fatal);
}

// The group ends here: everything pending fails and later calls rethrow. A rank that left in
// order still took part in items below fatal.sequence and in fatal.rounds rounds; those complete.
void EngineImpl::ended(const Fatal& fatal) {
  const bool own = fatal.ranks.empty() || fatal.ranks.front() == rank();
  base::report_first_failure(own ? base::FirstFailure::own : base::FirstFailure::peer);
  cut_sequence_ = fatal.sequence;
  last_words_until_ = std::chrono::steady_clock::now() + kReasonTimeout;
  if (fatal.kind == FatalKind::peer_left && !fatal.ranks.empty()) farewell_ = fatal.ranks.front();
  const auto error = to_exception(fatal);
  {
    const std::scoped_lock lock(queue_lock_);
    fatal_ = error;
    if (fatal.kind == FatalKind::peer_lost && !fatal.ranks.empty()) lost_rank_ = fatal.ranks.front();
  }
  end_calls(fatal, error);
  fail_unlisted(error, true);
  fail_listed_from(cut_sequence_, error);
  // What a rank that left in order has taken part in ends by itself; with one that is lost it never would.
  if (lane_ && !farewell_) lane_->give_up();
  for (auto* rounds : rounds_) {
    const std::size_t id = rounds->id();
    rounds->poison(error, id < fatal.rounds.size() ? fatal.rounds[id] : 0);
  }
  if (held_ && !completing()) end_held();
}

void EngineImpl::fail_listed_from(std::uint64_t sequence, const std::exception_ptr& error) {
  while (!listed_.empty() && listed_.back().item.sequence >= sequence) {
    for (auto& submission : listed_.back().submissions) fail(submission.pending, error);
    listed_.pop_back();
  }
  executor_.fail_from(sequence, error);
}

// A rank has left in order, and now what was still to complete cannot: another one is lost, or a device. That is what
// calls say from now on: results of a round that has been closed may be missing. Or it is what follows from the end:
// then that is the cause.
void EngineImpl::end_the_rest(const Fatal& fatal) {
  if (farewell_) {
    const std::scoped_lock lock(queue_lock_);
    if (!cut_off_) fatal_ = to_exception(fatal);
    if (fatal.kind == FatalKind::peer_lost && !fatal.ranks.empty() && !lost_rank_) lost_rank_ = fatal.ranks.front();
  }
  cut_off_ = true;
  held_.reset();
  cut_sequence_ = 0;
  const auto error = current_fatal();
  fail_listed_from(0, error);
  if (lane_) lane_->give_up();
  for (auto* rounds : rounds_) rounds->poison(error, 0);
}

}  // namespace kolo::engine
