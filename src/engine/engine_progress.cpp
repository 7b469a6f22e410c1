// The half of the engine that runs under the progress lock: messages in, matching, lists out, execution, ends.
#include <algorithm>
#include <chrono>

#include "base/deadline.h"
#include "engine/engine_impl.h"
#include "engine/ready_list.h"
#include "engine/signature.h"
#include "kolo/error.h"

namespace kolo::engine {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kGoodbye = 2s;  // how long a leaving rank tries to say so

}  // namespace

bool EngineImpl::advance() {
  bool moved = false;
  try {
    kicked_.store(false);
    moved |= drain();  // first: a failure that arrives below ends what was submitted before it
    for (auto* rounds : rounds_) moved |= rounds->advance();
    if (control_ && !poisoned_) {  // afterwards nothing said can matter, and links to ranks that left throw
      moved |= receive();
      control_->flush();
    }
    moved |= relay();
    moved |= executor_.advance();
  } catch (...) {
    poison_by(std::current_exception());
    moved = true;
  }
  const auto busy = std::count_if(rounds_.begin(), rounds_.end(), [](const auto* rounds) { return rounds->busy(); });
  executing_.store(static_cast<int>(executor_.in_flight()));
  active_.store(poisoned_ ? 0 : static_cast<int>(submitted_.size() + executor_.in_flight()) + static_cast<int>(busy));
  return moved;
}

bool EngineImpl::drain() {
  if (queued_.load() == 0) return false;
  std::vector<Submission> arrived;
  {
    const std::scoped_lock lock(queue_lock_);
    arrived.swap(queue_);
    queued_.store(0);
  }
  for (auto& submission : arrived) {
    const std::string name = submission.entry.name;
    matcher_.add_own(submission.entry);
    submitted_.insert_or_assign(name, std::move(submission));
  }
  if (poisoned_) fail_unlisted(current_fatal(), true);
  return true;
}

bool EngineImpl::receive() {
  bool moved = false;
  while (!poisoned_) {
    auto received = control_->receive();
    if (!received) break;
    handle(std::move(*received));
    moved = true;
  }
  return moved;
}

void EngineImpl::handle(ControlChannel::Received received) {
  auto& [from, envelope] = received;
  const bool from_parent = !tree_.is_root() && from == tree_.parent();
  if (envelope.fatal) {
    poison(*envelope.fatal, from);
    return;
  }
  if (from_parent) {
    ++envelope.depth;
    depth_ = envelope.depth;
    if (envelope.failure || !envelope.items.empty()) send_down(envelope);
    if (envelope.failure) apply_failure(*envelope.failure);
    for (const auto& item : envelope.items) execute(item);
    return;
  }
  if (envelope.failure) {
    if (tree_.is_root()) {
      announce_failure(*envelope.failure);
    } else {
      control_->send(tree_.parent(), envelope);
    }
  }
  depth_ = std::max(depth_, envelope.depth + 1);
  for (auto& entry : envelope.entries) {
    // What was submitted before a failure was announced has failed there; gradient rounds end in their own way.
    if (envelope.epoch < epoch_ && entry.signature.kind != Kind::gradient_round) continue;
    matcher_.add_from_child(from, std::move(entry));
  }
}

bool EngineImpl::relay() {
  auto entries = matcher_.take_ready();
  if (entries.empty()) return false;
  Envelope envelope;
  envelope.epoch = epoch_;
  envelope.depth = depth_;
  depth_ = 0;
  if (!tree_.is_root()) {
    envelope.entries = std::move(entries);
    control_->send(tree_.parent(), envelope);
    return true;
  }
  envelope.items = make_ready_list(entries, parts_.config->bucket_bytes, tree_.size, next_sequence_);
  send_down(envelope);
  for (const auto& item : envelope.items) execute(item);
  return true;
}

void EngineImpl::send_down(const Envelope& envelope) {
  for (const Rank child : tree_.children()) control_->send(child, envelope);
}

void EngineImpl::execute(const Item& item) {
  next_sequence_ = item.sequence + 1;
  parts_.counters->control_depth_max.raise_to(depth_);
  std::vector<Submission> submissions;
  for (const auto& name : item.names) {
    const auto found = submitted_.find(name);
    if (found == submitted_.end())
      throw BackendError("the list names '" + name + "', which this rank has not submitted");
    submissions.push_back(std::move(found->second));
    submitted_.erase(found);
  }
  auto& first = submissions.front();
  const std::string& name = item.names.front();
  if (item.conflict) {
    fail(first.pending, std::make_exception_ptr(MismatchError(describe(name, *item.conflict))));
  } else if (!item.failed_ranks.empty()) {
    const auto text = "training code failed on " + ranks_text(item.failed_ranks) + ": " + item.failure;
    fail(first.pending, std::make_exception_ptr(PeerFailedError(item.failed_ranks, text)));
  } else if (first.when_listed) {
    first.when_listed(item);
    release(name);
    first.pending.work->complete({}, nullptr);
  } else {
    std::vector<Pending> pending;
    for (auto& submission : submissions) pending.push_back(std::move(submission.pending));
    executor_.start(item, std::move(pending));
    if (poisoned_) executor_.fail_from(cut_sequence_, current_fatal());
  }
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

// At the root, where the order of everything is decided.
void EngineImpl::announce_failure(const Fatal& failure) {
  Envelope envelope;
  envelope.epoch = epoch_;
  envelope.failure = failure;
  send_down(envelope);
  apply_failure(failure);
}

void EngineImpl::apply_failure(const Fatal& failure) {
  ++epoch_;
  matcher_.forget_named();
  fail_unlisted(to_exception(failure), false);
}

std::exception_ptr EngineImpl::to_exception(const Fatal& fatal) const {
  switch (fatal.kind) {
    case FatalKind::peer_left:
    case FatalKind::peer_lost:
      return std::make_exception_ptr(PeerLostError(fatal.ranks.empty() ? -1 : fatal.ranks.front(), fatal.text));
    case FatalKind::timeout:
      return std::make_exception_ptr(TimeoutError(fatal.ranks, fatal.text));
    case FatalKind::failed: {
      const auto text = "training code failed on " + ranks_text(fatal.ranks) + ": " + fatal.text;
      return std::make_exception_ptr(PeerFailedError(fatal.ranks, text));
    }
    case FatalKind::backend:
      break;
  }
  return std::make_exception_ptr(BackendError(fatal.text));
}

std::exception_ptr EngineImpl::current_fatal() {
  const std::scoped_lock lock(queue_lock_);
  return fatal_;
}

void EngineImpl::poison_by(const std::exception_ptr& error) {
  Fatal fatal;
  try {
    std::rethrow_exception(error);
  } catch (const PeerLostError& lost) {
    fatal = {FatalKind::peer_lost, {lost.rank()}, lost.what(), 0, {}};
  } catch (const TimeoutError& timeout) {
    fatal = {FatalKind::timeout, timeout.missing(), timeout.what(), 0, {}};
  } catch (const std::exception& other) {
    fatal = {FatalKind::backend, {rank()}, "rank " + std::to_string(rank()) + ": " + other.what(), 0, {}};
  }
  poison(fatal, rank());
}

// The group ends here: everything pending fails, later calls rethrow, the neighbours hear of it. A rank that left in
// order still took part in items below fatal.sequence and in fatal.rounds rounds; those complete.
void EngineImpl::poison(const Fatal& fatal, Rank heard_from) {
  if (poisoned_) return;
  poisoned_ = true;
  cut_sequence_ = fatal.sequence;
  const auto error = to_exception(fatal);
  {
    const std::scoped_lock lock(queue_lock_);
    fatal_ = error;
  }
  fail_unlisted(error, true);
  executor_.fail_from(cut_sequence_, error);
  for (auto* rounds : rounds_) {
    const std::size_t id = rounds->id();
    rounds->poison(error, id < fatal.rounds.size() ? fatal.rounds[id] : 0);
  }
  Envelope envelope;
  envelope.fatal = fatal;
  for (const Rank neighbour : tree_.neighbours()) {
    if (neighbour == heard_from) continue;
    try {
      control_->send(neighbour, envelope);
    } catch (const Error&) {
      // It is gone too; the others are told.
    }
  }
}

// Progress lock held: says goodbye to the neighbours. What this rank has pending and unlisted fails here.
void EngineImpl::leave() {
  if (!poisoned_) {
    fail_unlisted(std::make_exception_ptr(
                      UsageError("still pending when rank " + std::to_string(rank()) + " shut down its Context")),
                  true);
    Fatal fatal{FatalKind::peer_left,
                {rank()},
                "rank " + std::to_string(rank()) + " has shut down its Context",
                next_sequence_,
                std::vector<std::uint64_t>(reducers_made_, 0)};
    for (const auto& [id, finished] : finished_by_id_) fatal.rounds[id] = finished;
    for (const auto* rounds : rounds_) fatal.rounds[rounds->id()] = rounds->rounds_finished();
    poison(fatal, rank());
  }
  const base::Deadline deadline(kGoodbye);
  try {
    while (control_ && !control_->flush() && !deadline.passed()) parts_.transport->wait_for_activity(100us);
  } catch (const PeerLostError&) {
    // Whoever left before us need not be told.
  }
}

// Now and then while somebody waits: dead peers, operations past their time, stalls worth a warning.
void EngineImpl::watch() {
  const std::unique_lock lock(progress_lock_, std::try_to_lock);
  if (!lock.owns_lock() || poisoned_) return;
  const auto now = Clock::now();
  if (now - last_watch_ < 5ms) return;
  last_watch_ = now;
  try {
    parts_.transport->check_peers();
    watch_deadlines(now);
  } catch (...) {
    poison_by(std::current_exception());
  }
}

void EngineImpl::watch_deadlines(Clock::time_point now) {
  const auto& config = *parts_.config;
  for (auto& [name, submission] : submitted_) {
    const auto age = now - submission.since;
    const bool late = age > config.timeout;
    const bool stalled = config.stall_warning.count() > 0 && age > config.stall_warning && !submission.stall_reported;
    if (!late && !stalled) continue;
    const auto missing = matcher_.missing(name);
    const auto seconds = std::chrono::duration_cast<std::chrono::milliseconds>(age).count();
    const std::string text = "'" + name + "' has been waiting for " + std::to_string(seconds) + " ms" +
                             (missing.empty() ? " for the root's list" : ": not submitted by " + ranks_text(missing));
    if (late) throw TimeoutError(missing, "rank " + std::to_string(rank()) + ": " + text);
    submission.stall_reported = true;
    parts_.log(LogLevel::warn, text);
  }
  const auto oldest = executor_.oldest();
  if (oldest && now - *oldest > config.timeout) {
    const auto missing = executor_.waiting_for();
    throw TimeoutError(missing, "rank " + std::to_string(rank()) +
                                    ": an operation was started and not completed in time, waiting for " +
                                    ranks_text(missing));
  }
}

}  // namespace kolo::engine
