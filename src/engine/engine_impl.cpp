#include "engine/engine_impl.h"

#include <algorithm>
#include <thread>

#include "base/deadline.h"
#include "engine/ready_list.h"
#include "engine/reducer_handle.h"
#include "engine/request_check.h"
#include "engine/signature.h"
#include "kolo/error.h"
#include "kolo/spi/engine.h"

namespace kolo::engine {
namespace {

using namespace std::chrono_literals;

constexpr auto kWorkGrace = 6s;                 // the engine's own deadline, which knows who is missing, comes first
constexpr auto kPatrol = 20ms;                  // without spare cores: how long callers may do the work themselves
constexpr std::chrono::microseconds kNap{100};  // longest sleep of a waiter: shared memory rings no bell
constexpr std::chrono::microseconds kLongNap{1000};  // where nothing is in shared memory
constexpr auto kShortNap = 30us;   // over MPI, where nothing wakes a sleeper: at first, then twice as long each time
constexpr auto kRespite = 100us;   // over a network: what callers finish in this time needs no coordinator
constexpr int kLooksFarAway = 20;  // a look costs a system call there
constexpr auto kHeartbeat = 50ms;  // of an idle coordinator: 20 looks a second cost nothing that can be measured
constexpr auto kLinger = 50us;     // a burst of requests is listed together, if nobody waits for the first
constexpr int kYields = 64;
constexpr int kLooksADeadline = 64;
constexpr auto kCompletion = 30s;  // how long a leaving rank stays for what was listed before
constexpr auto kLastOnes = 30s;    // for threads whose wait has ended to come out of it

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

std::shared_ptr<EngineImpl> EngineImpl::make(EngineParts parts) {
  auto engine = std::make_shared<EngineImpl>(std::move(parts));
  engine->start_coordinator();
  return engine;
}

EngineImpl::EngineImpl(EngineParts parts)
    : parts_(std::move(parts)),
      round_timeout_(parts_.config->timeout),
      places_(*parts_.calls),
      executor_({parts_.named ? parts_.named() : parts_.communicators(), parts_.counters, parts_.config->timeout,
                 parts_.config->idle_buffer_bytes / static_cast<std::size_t>(std::max(1, parts_.placement.local_size)),
                 [this](const std::string& name) { release(name); }}),
      negotiation_({parts_.placement.rank, parts_.placement.size},
                   caps_of(*parts_.config, 0, parts_.over_network).bucket_bytes, *this) {
  if (parts_.shared_memory != nullptr) parts_.shared_memory->set_while_waiting([this] { while_allocating(); });
  parts_.calls->set_hooks(call_hooks());
  if (parts_.transport != nullptr) {
    control_ =
        std::make_unique<ControlChannel>(negotiation_.tree(), *parts_.transport, parts_.control_tag, *parts_.counters);
  }
}

EngineImpl::~EngineImpl() {
  stop();
  static_cast<void>(end_lease());
}

bool EngineImpl::end_lease() { return lease_.end(kLastOnes); }

void EngineImpl::start_coordinator() {
  const auto mode = parts_.config->coordinator;
  if (mode == CoordinatorMode::never) return;
  // A rank that is alone completes its operations at once: two threads would only take the lock from each other.
  const bool spare = parts_.placement.size > 1 && parts_.placement.local_cores > parts_.placement.local_size;
  CoordinatorParts coordinator;
  coordinator.pending = [this] { return pending(); };
  // Over a network it is there in any case: what is sent leaves, and what comes arrives, only while somebody looks.
  const bool patrol = !parts_.over_network && mode != CoordinatorMode::always && !spare;
  coordinator.patience = patrol ? std::chrono::microseconds(kPatrol) : parts_.over_network ? kRespite : 0us;
  coordinator.counters = parts_.counters;
  coordinator.interval = kHeartbeat;
  if (parts_.heartbeat) {
    coordinator.heartbeat = [this] {
      try_advance(Visitor::coordinator);
      check_deadlines();
    };
  }
  // Without cores to spare it looks once a patrol; otherwise it stays until nothing is pending.
  coordinator.drive = [this, patrol](const std::atomic<bool>& stop) {
    if (patrol) {
      try_advance(Visitor::coordinator);
    } else {
      drive(
          Visitor::coordinator, [&] { return stop.load() || !pending(); }, std::chrono::hours(24));
    }
  };
  coordinator_ = std::make_unique<Coordinator>(std::move(coordinator));
}

bool EngineImpl::pending() const noexcept { return queued_.load() > 0 || active_.load() > 0 || kicked_.load(); }

void EngineImpl::notify() {
  kicked_.store(true);
  if (coordinator_) coordinator_->notify();
}

Work EngineImpl::submit(Request request) {
  if (request.name.empty()) {
    return Work(unnamed_.submit(std::move(request), [this](Request named) { return submit_named(std::move(named)); }));
  }
  if (request.name.starts_with("kolo/")) {
    throw UsageError("request '" + request.name + "': names that begin with kolo/ are reserved. Choose another name");
  }
  return submit_internal(std::move(request));
}

std::shared_ptr<WorkState> EngineImpl::submit_named(Request request) {
  check_name(request.name);
  Submission submission;
  submission.entry.name = request.name;
  submission.entry.rank = rank();
  submission.entry.failure = refusal_of(request, parts_.placement.size, rank());
  if (!submission.entry.failure.empty()) {
    submission.entry.failed_ranks = {rank()};
    submission.pending.request.name = std::move(request.name);
    return enqueue(std::move(submission));
  }
  submission.entry.signature = signature_of(request);
  if (request.kind == RequestKind::allgather) {
    submission.entry.ranks = {rank()};
    submission.entry.bytes = {payload_bytes(submission.entry.signature)};
  }
  submission.pending.request = std::move(request);
  return enqueue(std::move(submission));
}

Work EngineImpl::submit_table(Entry entry, std::size_t id) {
  Submission submission;
  submission.pending.request.name = entry.name;
  submission.entry = std::move(entry);
  submission.when_listed = [](const Item&) {};
  submission.table_of = id;
  return Work(enqueue(std::move(submission)));
}

Work EngineImpl::submit_round(Entry entry, bool on_device, std::function<void(const Item&)> when_listed) {
  Submission submission;
  submission.pending.request.name = entry.name;
  submission.entry = std::move(entry);
  submission.when_listed = std::move(when_listed);
  submission.on_device = on_device;
  return Work(enqueue(std::move(submission)));
}

std::shared_ptr<WorkState> EngineImpl::enqueue(Submission submission) {
  const std::string& name = submission.pending.request.name;
  const auto submitted_at = std::chrono::steady_clock::now();
  submission.since = submitted_at;
  // A round's turn may wait for the deadline, and then again for the other ranks' memory.
  const auto patience = parts_.config->timeout * (submission.when_listed ? 2 : 1) + kWorkGrace;
  const auto work = std::make_shared<WorkState>(name, lease_.offer(), patience);
  submission.pending.work = work;
  // Idle so far: what was announced in the meantime does not concern this submission. At the end: there may be a worse
  // one by now than the one that is known.
  if (!pending() || current_fatal()) progress_without_waiting();
  std::uint64_t overtaken = 0;
  {
    const std::scoped_lock lock(queue_lock_);
    if (stopped_) throw UsageError("'" + name + "' was submitted after Context::shutdown()");
    if (fatal_) std::rethrow_exception(fatal_);
    if (const auto* untold = places_.first(); untold != nullptr && !submission.when_listed) {
      submission.pending.work->fail(untold->error);
      return work;
    }
    own_failure_.reset();
    const auto* before = submission.table_of ? places_.before(*submission.table_of) : nullptr;
    if (before != nullptr) overtaken = before->numbers.front();
    if (!names_.insert(name).second) {
      throw UsageError("'" + name + "' is already pending on rank " + std::to_string(rank()) +
                       ". Wait for it before you submit the name again");
    }
    queue_.push_back(std::move(submission));
    queued_.store(static_cast<int>(queue_.size()));
    last_request_.store(submitted_at.time_since_epoch().count());
  }
  if (overtaken != 0) end_overtaken(overtaken);
  if (coordinator_) coordinator_->notify();
  return work;
}

// A transport is used by one thread at a time, also for waiting; of two who wait the coordinator looks as rarely as may
// be. Over MPI nothing would end the wait early: there the lock is left to hooks meanwhile. Returns how long the next
// nap is to be, if nothing has moved by then.
std::chrono::microseconds EngineImpl::nap(Visitor visitor, std::chrono::microseconds length) {
  const auto longest = parts_.over_network && parts_.shared_memory == nullptr ? kLongNap : kNap;
  const bool spare = visitor == Visitor::coordinator && waiters_.load() > 0;
  if (!parts_.transport_wakes) {
    std::this_thread::sleep_for(spare ? longest : length);
    return std::min(2 * length, longest);
  }
  std::unique_lock lock(progress_lock_, std::try_to_lock);
  if (lock.owns_lock() && askers_.load() > 0) lock.unlock();
  if (lock.owns_lock()) {
    napping_.store(true);
    try {
      parts_.transport->wait_for_activity(longest);
    } catch (...) {
      poison_by(std::current_exception());
    }
    napping_.store(false);
  } else {
    std::this_thread::sleep_for(spare ? longest : kNap);
  }
  return length;
}

Engine& EngineImpl::for_gradients() noexcept { return parts_.for_gradients != nullptr ? *parts_.for_gradients : *this; }

std::unique_ptr<GradientReducer> EngineImpl::make_reducer(std::vector<GradientInfo> table, ReducerOptions options) {
  options.refused = refusal_of(table, options);
  if (!options.refused.empty()) table.clear();
  const int device = options.device;
  const bool on_device = std::any_of(table.begin(), table.end(), [](const auto& row) { return row.on_device; });
  drop_orphans();
  RoundSettings settings;
  settings.options = std::move(options);
  settings.overlap = parts_.config->overlap;
  settings.algorithm = parts_.config->algorithm;
  settings.caps = caps_of(*parts_.config, settings.options.bucket_bytes, parts_.over_network && !on_device);
  {
    const std::scoped_lock lock(progress_lock_);
    const bool in_place = settings.options.in_place_from > 0 && parts_.placement.size > 1;
    if (in_place && settings.options.refused.empty() && !allocator().supports_segmented()) {
      settings.options.refused =
          "gradients can be reduced in place only if all ranks share one host's memory, or if each rank has its own "
          "host";
    }
    if (settings.options.refused.empty()) settings.options.refused = refusal_of(settings.algorithm, allocator());
    settings.id = reducers_made_++;
  }
  auto rounds = std::make_unique<GradientRounds>(*this, std::move(table), std::move(settings));
  {
    const std::scoped_lock lock(progress_lock_);
    rounds_.push_back(rounds.get());
  }
  rounds->verify();  // also that all ranks have gradients on devices, or none
  if (on_device) {
    need_lane(device);
    rounds->use_lane();
  }
  return std::make_unique<ReducerHandle>(*this, lifetime(), std::move(rounds));
}

void EngineImpl::orphan(std::unique_ptr<GradientRounds> rounds) noexcept {
  const std::scoped_lock lock(progress_lock_);
  rounds->let_go_of_contributions();
  orphans_.push_back(std::move(rounds));
}

void EngineImpl::drop_orphans() {
  std::vector<std::unique_ptr<GradientRounds>> orphans;
  {
    const std::scoped_lock lock(progress_lock_);
    orphans.swap(orphans_);
  }
}  // their destructors take the lock

void EngineImpl::forget(GradientRounds& rounds) {
  const std::scoped_lock lock(progress_lock_);
  std::erase(rounds_, &rounds);
  if (finished_by_id_.size() <= rounds.id()) finished_by_id_.resize(rounds.id() + 1, 0);
  finished_by_id_[rounds.id()] = rounds.rounds_finished();
  // A wait of its that was given up may have left a round behind.
  const auto name = GradientRounds::name_of(rounds.id());
  const auto leave_alone = [&](Submission& submission) {
    if (submission.entry.name == name) submission.when_listed = [](const Item&) {};
  };
  for (auto& [unused, submission] : submitted_) leave_alone(submission);
  for (auto& listed : listed_) std::ranges::for_each(listed.submissions, leave_alone);
  {
    const std::scoped_lock queue(queue_lock_);
    places_.forget(rounds);
    history_.gone(rounds.id());
  }
}

void EngineImpl::bury(std::shared_ptr<void> memory) {
  const std::scoped_lock lock(progress_lock_);
  buried_.push_back(std::move(memory));
}

// A polling program holds the lock most of the time, which keeps the coordinator out. So progress()
// itself allocates memory and checks deadlines.
bool EngineImpl::progress() {
  const bool moved = try_advance(Visitor::poller);
  if (!moved && parts_.transport != nullptr) check_deadlines();
  return moved;
}

bool EngineImpl::progress_without_waiting() { return try_advance(Visitor::hook); }

bool EngineImpl::try_advance(Visitor visitor) {
  const std::unique_lock lock(progress_lock_, std::try_to_lock);
  if (lock.owns_lock()) return advance(visitor);
  // A thread that sleeps on the transport has not seen what the hook brought.
  if ((visitor == Visitor::hook || visitor == Visitor::poller) && napping_.load()) parts_.transport->wake();
  return false;
}

bool EngineImpl::requests_settled() const {
  const std::chrono::steady_clock::duration since(last_request_.load());
  return std::chrono::steady_clock::now().time_since_epoch() - since > kLinger;
}

bool EngineImpl::drive_until(const std::function<bool()>& done, std::chrono::milliseconds timeout) {
  return drive(Visitor::waiter, done, timeout);
}

// Without a coordinator nobody is left to say what peers still wait for, once the caller has what it wants: it stays
// until that has left.
bool EngineImpl::drive(Visitor visitor, const std::function<bool()>& done, std::chrono::milliseconds timeout) {
  const auto may_go = [&] { return done() && (coordinator_ != nullptr || !unsent_.load()); };
  if (may_go()) return true;
  const auto start = std::chrono::steady_clock::now();
  const base::Deadline deadline(timeout);
  const bool crowded = parts_.placement.local_cores < parts_.placement.local_size;
  const bool waiter = visitor == Visitor::waiter;
  const int most = parts_.over_network ? (waiter ? kLooksFarAway : 0) : crowded ? 8 : parts_.config->spin_iterations;
  const int spins = std::min(most, parts_.config->spin_iterations);
  const int yields = parts_.over_network && !waiter ? 0 : kYields;
  std::chrono::microseconds length = kShortNap;
  bool in_time = true;
  std::uint64_t looks = 0;
  if (waiter) {
    note_change_of_place();
    waiters_.fetch_add(1);
  }
  for (int idle = 0; !may_go();) {
    if (++looks % kLooksADeadline == 0 && deadline.passed()) {
      in_time = done();
      break;
    }
    if (try_advance(visitor)) {
      idle = 0;
      length = kShortNap;
      continue;
    }
    idle = std::min(idle + 1, spins + yields);
    if (idle < spins) {
      pause();
    } else if (idle < spins + yields || parts_.transport == nullptr) {
      std::this_thread::yield();
    } else {
      check_deadlines();
      length = nap(visitor, length);
    }
  }
  if (waiter) {
    waiters_.fetch_sub(1);
    note_change_of_place();
    const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - start;
    parts_.counters->wait_ns.add(static_cast<std::uint64_t>(spent.count()));
  }
  parts_.counters->polls.add(looks);
  return in_time;
}

void EngineImpl::drive_round(const std::function<bool()>& done, const std::function<Awaited()>& awaited) {
  if (drive_with_warning(done, awaited)) return;
  const auto judged = [this] {
    const std::scoped_lock lock(progress_lock_);
    return !held_;
  };
  drive_until(judged, parts_.death_notice);  // what is held is why nothing came
  const std::scoped_lock lock(progress_lock_);
  if (done()) return;
  if (held_) return end_held();
  const auto [ranks, what] = awaited();
  auto text = "rank " + std::to_string(rank()) + ": timeout after " + std::to_string(round_timeout_.load().count()) +
              " ms in " + what;
  if (!failing_.empty()) text += "; this rank ended the round because of: " + failing_;
  negotiation_.end({FatalKind::timeout, ranks, text}, rank());
}

void EngineImpl::stop() noexcept {
  {
    const std::scoped_lock lock(queue_lock_);
    if (stopped_.exchange(true)) return;
  }
  const auto whatever_it_throws = [this](const auto& act) {
    try {
      act();
    } catch (const std::exception& error) {
      parts_.log(LogLevel::warn, std::string("shutdown: ") + error.what());
    }
  };
  if (coordinator_) coordinator_->stop();
  lane_watch_.reset();
  whatever_it_throws([this] { complete_listed(); });
  const std::scoped_lock lock(progress_lock_);
  const auto unfinished =
      std::make_exception_ptr(UsageError("the operation was still pending when rank " + std::to_string(rank()) +
                                         " shut down its Context. Call wait() first"));
  whatever_it_throws([&] { say_goodbye(unfinished); });
  executor_.fail_from(0, unfinished);  // what peers that are gone kept from ending
  if (parts_.shared_memory != nullptr) parts_.shared_memory->set_while_waiting({});
  unsent_.store(false);  // what is left, nobody waits for
}

// What is listed concerns the peers too.
void EngineImpl::complete_listed() {
  const auto longest = std::min<std::chrono::milliseconds>(timeout(), kCompletion);
  drive_until([this] { return executing_.load() == 0; }, longest);
  drop_orphans();
  const auto devices_idle = [this] {
    const std::scoped_lock lock(progress_lock_);
    return lane_ == nullptr || lane_->idle();
  };
  drive_until(devices_idle, longest);
}

}  // namespace kolo::engine
