// The half of the engine that runs under the progress lock: messages in and out, what is listed, how it ends.
#include <algorithm>
#include <chrono>

#include "base/deadline.h"
#include "base/first_failure.h"
#include "base/strings.h"
#include "engine/bucket_on_device.h"
#include "engine/engine_impl.h"
#include "engine/message_check.h"
#include "engine/signature.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"

namespace kolo::engine {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kGoodbye = 2s;       // how long a leaving rank tries to say so
constexpr auto kLastWords = 100ms;  // the same where the group has ended already, and what was said may have no taker

// The item that is being begun, while it is.
class Begun {
 public:
  Begun(std::uint64_t& running, std::uint64_t sequence) : running_(running) { running_ = sequence; }
  ~Begun() { running_ = 0; }
  Begun(const Begun&) = delete;
  Begun& operator=(const Begun&) = delete;

 private:
  std::uint64_t& running_;
};

// All ranks do it; otherwise all report why not.
bool is_executed(const Item& item) { return !item.conflict && item.failed_ranks.empty(); }

}  // namespace

bool EngineImpl::advance(Visitor visitor) {
  bool moved = false;
  const auto before = advancing_.exchange(std::this_thread::get_id());
  try {
    kicked_.store(false);
    moved |= drain();  // first: a failure that arrives below ends what was submitted before it
    if (lane_failure_) std::rethrow_exception(std::exchange(lane_failure_, nullptr));
    if (held_) judge_held_failure();
    moved |= advance_rounds(visitor);
    if (control_) moved |= negotiation_.has_ended() ? say_last_words() : converse();
    const bool may_relay = visitor != Visitor::coordinator || requests_settled();
    moved |= may_relay && !negotiation_.has_ended() && negotiation_.relay();
    moved |= !held_ && run_listed(visitor != Visitor::hook);
    moved |= executor_.advance();
    moved |= executor_.communicator().made_progress();
    watch_lane();
    if (parts_.transport != nullptr) {
      moved |= std::exchange(transfers_seen_, parts_.transport->completed()) != parts_.transport->completed();
    }
  } catch (...) {
    moved |= poison_by(std::current_exception());
  }
  const auto busy = std::count_if(rounds_.begin(), rounds_.end(), [](const auto* rounds) { return rounds->busy(); });
  count_executing();
  // After the end only what everyone still takes part in.
  const bool over = negotiation_.has_ended();
  const bool unsent = control_ && !control_->idle() && (!over || Clock::now() < last_words_until_);
  unsent_.store(unsent);
  const int waiting = static_cast<int>(submitted_.size()) + static_cast<int>(busy) + (unsent ? 1 : 0) + (held_ ? 1 : 0);
  const bool completing_there = completing() && lane_ != nullptr && !lane_->idle();
  const int after_all = static_cast<int>(held_.has_value() || completing_there);
  active_.store((over ? after_all + static_cast<int>(unsent) : waiting) + executing_.load());
  advancing_.store(before);
  return moved;
}

bool EngineImpl::advance_rounds(Visitor visitor) {
  if (held_) return false;
  if (lane_ && visitor == Visitor::coordinator) lane_->adopt_thread();
  bool moved = false;
  for (auto* rounds : rounds_) moved |= rounds->advance();
  return moved;
}

bool EngineImpl::drain() {
  if (queued_.load() == 0) return false;
  std::vector<Submission> arrived;
  {
    const std::scoped_lock lock(queue_lock_);
    arrived.swap(queue_);
    active_.fetch_add(static_cast<int>(arrived.size()));  // first, or a coordinator that looks between goes to sleep
    queued_.store(0);
  }
  for (auto& submission : arrived) {
    const std::string name = submission.entry.name;
    negotiation_.submit(submission.entry);
    submitted_.insert_or_assign(name, std::move(submission));
  }
  if (negotiation_.has_ended()) fail_unlisted(current_fatal(), true);
  return true;
}

bool EngineImpl::receive() {
  bool moved = false;
  while (!negotiation_.has_ended()) {
    auto received = control_->receive();
    if (!received) break;
    negotiation_.receive(received->from, std::move(received->envelope));
    moved = true;
  }
  return moved;
}

// Hears and says what there is. A neighbour that has left takes no more, which is no loss: its goodbye was sent before.
bool EngineImpl::converse() {
  bool moved = receive();
  try {
    control_->flush();
  } catch (const PeerLostError&) {
    moved |= receive();
    if (!negotiation_.has_ended()) throw;
  }
  return moved;
}

// Why the group has ended is said for a while. What is heard does not matter any more, and links to ranks that left
// throw.
bool EngineImpl::say_last_words() noexcept {
  if (control_->idle() || Clock::now() >= last_words_until_) return false;
  return all_said();
}

// Whoever left before us need not be told, and what is broken cannot tell.
bool EngineImpl::all_said() noexcept {
  try {
    return control_->flush();
  } catch (const std::exception&) {
    return false;
  }
}

void EngineImpl::send(Rank to, const Envelope& envelope) { control_->send(to, envelope); }

void EngineImpl::execute(const Item& item, std::uint32_t depth) {
  parts_.counters->control_depth_max.raise_to(depth);
  std::vector<const Signature*> own;
  for (const auto& name : item.names) {
    const auto found = submitted_.find(name);
    if (found == submitted_.end())
      throw DamagedMessage("malformed control message: it lists '" + name + "', which this rank has not submitted");
    own.push_back(&found->second.entry.signature);
  }
  check(item, own, negotiation_.tree());
  Listed listed{item, {}};
  for (const auto& name : item.names) listed.submissions.push_back(std::move(submitted_.extract(name).mapped()));
  listed_.push_back(std::move(listed));
  count_executing();  // seen before a failure that comes after it
}

void EngineImpl::count_executing() { executing_.store(static_cast<int>(executor_.in_flight() + listed_.size())); }

bool EngineImpl::run_listed(bool may_wait) {
  bool moved = false;
  while (!listed_.empty() && (may_wait || !needs_wait(listed_.front())) && takes_turn(listed_.front())) {
    auto next = std::move(listed_.front());
    listed_.pop_front();
    try {
      run(next);
    } catch (const DamagedMessage&) {
      throw;
    } catch (const GroupFailure&) {
      listed_.push_front(std::move(next));  // it ends with the group, and as the group does
      throw;
    } catch (const BackendError& error) {
      // There was no memory, and every rank of this host has been told: if there are no others, nothing but this item
      // has failed.
      if (parts_.placement.cross_size > 1) throw GroupFailure(error.what());
    }
    moved = true;
  }
  return moved;
}

bool EngineImpl::needs_wait(const Listed& listed) const {
  if (!is_executed(listed.item)) return false;
  if (listed.submissions.front().when_listed) return true;
  std::vector<const Request*> requests;
  for (const auto& submission : listed.submissions) requests.push_back(&submission.pending.request);
  return executor_.needs_memory(listed.item.names, requests);
}

// A plan's buckets on devices have memory that NCCL makes with all ranks, behind the same buckets of other reducers
// everywhere. Reductions by hosts alone need none.
bool EngineImpl::takes_turn(const Listed& listed) {
  if (!is_executed(listed.item) || !listed.submissions.front().on_device || lane_->route() == device::Route::hosts) {
    return true;
  }
  const Begun begun(running_sequence_, listed.item.sequence);
  if (!plan_turn_) {
    plan_turn_.emplace(make_prepared(parts_.communicators, timeout()), *lane_, parts_.counters);
    return false;  // what was heard meanwhile may have ended this item
  }
  if (!plan_turn_->under_way()) plan_since_ = Clock::now();
  return plan_turn_->take();
}

// While this rank waits for memory of peers that may never come to this item, it goes on listening.
void EngineImpl::while_allocating() {
  parts_.transport->check_peers();
  if (!negotiation_.has_ended()) {
    try {
      converse();
    } catch (const DamagedMessage&) {
      throw;
    } catch (const BackendError& error) {
      throw GroupFailure(error.what());
    }
  }
  if (negotiation_.has_ended() && running_sequence_ >= cut_sequence_) std::rethrow_exception(current_fatal());
}

void EngineImpl::check_others() {
  if (advancing_.load() == std::this_thread::get_id()) return while_allocating();
  if (watching_lane_.load() == std::this_thread::get_id()) return parts_.transport->check_peers();
  if (const auto fatal = current_fatal()) std::rethrow_exception(fatal);
  const std::unique_lock lock(progress_lock_, std::try_to_lock);
  if (lock.owns_lock()) parts_.transport->check_peers();
}

void EngineImpl::run(Listed& listed) {
  const auto& item = listed.item;
  const Begun begun(running_sequence_, item.sequence);
  auto& first = listed.submissions.front();
  const std::string& name = item.names.front();
  if (item.conflict && item.failed_ranks.empty()) {
    fail(first.pending, std::make_exception_ptr(MismatchError(describe(name, *item.conflict))));
  } else if (!item.failed_ranks.empty() && (!first.when_listed || first.table_of)) {
    const bool own = std::ranges::find(item.failed_ranks, rank()) != item.failed_ranks.end();
    base::report_first_failure(own ? base::FirstFailure::own : base::FirstFailure::peer);
    const auto text = "'" + name + "' was refused on " + base::ranks_text(item.failed_ranks) + ": " + item.failure;
    fail(first.pending, std::make_exception_ptr(UsageError(text)));
  } else if (!item.failed_ranks.empty()) {  // before its rank could say that its table has changed, perhaps
    // Whoever failed ends them too before its program goes on, and would otherwise contribute to them in its next step.
    for (auto* rounds : rounds_) {
      if (std::ranges::find(item.beside, rounds->id()) != item.beside.end()) rounds->doom();
    }
    const auto text = "training code failed on " + base::ranks_text(item.failed_ranks) + ": " + item.failure;
    fail(first.pending, std::make_exception_ptr(PeerFailedError(item.failed_ranks, text)));
  } else if (first.when_listed) {
    run_round(first, item);
  } else {
    start_named(listed);
  }
}

void EngineImpl::start_named(Listed& listed) {
  std::vector<Pending> pending;
  for (auto& submission : listed.submissions) pending.push_back(std::move(submission.pending));
  try {
    executor_.start(listed.item, pending);
  } catch (const GroupFailure&) {
    for (std::size_t i = 0; i < pending.size(); ++i) listed.submissions[i].pending = std::move(pending[i]);
    throw;
  }
}

void EngineImpl::run_round(Submission& round, const Item& item) {
  try {
    round.when_listed(item);
  } catch (const GroupFailure&) {
    throw;
  } catch (...) {
    fail(round.pending, std::current_exception());
    throw;
  }
  release(item.names.front());
  round.pending.work->complete({}, nullptr);
}

void EngineImpl::release(const std::string& name) {
  const std::scoped_lock lock(queue_lock_);
  names_.erase(name);
}

void EngineImpl::fail(Pending& pending, const std::exception_ptr& error) {
  release(pending.request.name);
  pending.work->fail(error);
}

void EngineImpl::fail_unlisted(const std::exception_ptr& error, bool rounds_too) {
  for (auto entry = submitted_.begin(); entry != submitted_.end();) {
    if (entry->second.when_listed && !rounds_too) {
      ++entry;
      continue;
    }
    fail(entry->second.pending, error);
    entry = submitted_.erase(entry);
  }
}

bool EngineImpl::has_failed() {
  const std::scoped_lock lock(progress_lock_, queue_lock_);
  return fatal_ != nullptr && (!farewell_ || cut_off_);
}

std::optional<Rank> EngineImpl::lost_rank() {
  const std::scoped_lock lock(queue_lock_);
  return lost_rank_;
}

std::exception_ptr EngineImpl::current_fatal() {
  const std::scoped_lock lock(queue_lock_);
  return fatal_;
}

// To the neighbours. What this rank has pending and unlisted fails here, with `unfinished`.
void EngineImpl::say_goodbye(const std::exception_ptr& unfinished) {
  try {
    if (parts_.transport != nullptr) parts_.transport->check_peers();
  } catch (...) {
    poison_by(std::current_exception());
  }
  drain();
  if (held_) end_held();  // nobody is left to wait for what is behind it
  const bool had_ended = negotiation_.has_ended();
  if (!had_ended) {
    fail_unlisted(unfinished, true);
    Fatal fatal;
    fatal.kind = FatalKind::peer_left;
    fatal.ranks = {rank()};
    say_why(fatal);
    fatal.sequence = negotiation_.next_sequence();
    fatal.rounds = finished_by_id_;
    fatal.reducers = reducers_made_;
    fatal.calls = parts_.calls->reached();
    fatal.rounds.resize(reducers_made_, 0);
    for (const auto* rounds : rounds_) fatal.rounds[rounds->id()] = rounds->rounds_finished();
    negotiation_.end(fatal, rank());
  }
  const base::Deadline deadline(had_ended ? kLastWords : std::chrono::milliseconds(kGoodbye));
  while (control_ && !all_said() && !deadline.passed()) parts_.transport->wait_for_activity(100us);
}

}  // namespace kolo::engine
