#include "engine/gradient_rounds.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "engine/request_check.h"
#include "engine/signature.h"
#include "kolo/error.h"
#include "telemetry/range.h"

namespace kolo::engine {
namespace {

constexpr std::byte kNothing{};  // what a tensor without elements contributes

constexpr const char* kFingerprintAdvice =
    ". The last step() used different learning rates (step fingerprints) on these ranks, and their weights differ "
    "now. Set equal rates on all ranks, then call broadcast_parameters() and broadcast_optimizer_state(), or load a "
    "checkpoint";

std::string place_text(int device) { return device < 0 ? "CPU" : "device " + std::to_string(device); }

}  // namespace

GradientRounds::GradientRounds(RoundHost& host, std::vector<GradientInfo> table, RoundSettings settings)
    : host_(host), table_(std::move(table)), settings_(std::move(settings)), contributions_(table_.size()) {}

GradientRounds::~GradientRounds() {
  host_.forget(*this);  // afterwards no other thread is in advance()
  if (host_.lane() != nullptr) host_.lane()->remove_reducer(this);
  if (in_flight_.load() > 0) host_.bury(std::shared_ptr<Frozen>(std::move(frozen_)));
  let_go(std::move(frozen_));
  let_go(std::move(retired_));
}

void GradientRounds::use_lane() { host_.lane()->add_reducer(this, settings_.options.release_cached_memory); }

// Nobody on the host uses it any more.
void GradientRounds::let_go(std::unique_ptr<Frozen> plan) {
  if (plan == nullptr || host_.lane() == nullptr) return;
  host_.retire(std::shared_ptr<Frozen>(std::move(plan)), user_.value_or(Stream{}));
}

// `settings`: besides those that never change.
Entry GradientRounds::make_entry(const std::string& settings) const {
  Entry entry;
  entry.name = name_of(settings_.id);
  entry.signature.kind = Kind::gradient_round;
  ReducerOptions options = settings_.options;
  for (const auto& further : {another_.empty() ? "" : "a second round of this step for " + another_, settings}) {
    if (!further.empty()) options.settings += (options.settings.empty() ? "" : ", ") + further;
  }
  entry.signature.table = table_text(table_, options);
  entry.rank = host_.rank();
  entry.order = order_;
  if (!failure_.empty()) {
    entry.failed_ranks = {host_.rank()};
    entry.failure = failure_;
  }
  return entry;
}

void GradientRounds::verify() {
  auto entry = make_entry({});
  entry.name = table_name_of(settings_.id);
  if (!settings_.options.refused.empty()) {
    entry.failed_ranks = {host_.rank()};
    entry.failure = settings_.options.refused;
  }
  host_.submit_table(std::move(entry), settings_.id).wait();
}

void GradientRounds::check_index(std::size_t index) const {
  if (index < table_.size()) return;
  throw UsageError("gradient " + std::to_string(index) + " is not in the table of " + std::to_string(table_.size()) +
                   " tensors");
}

void GradientRounds::check_contribution(std::size_t index, const Contribution& contribution) {
  check_index(index);
  if (hopeless()) {
    const std::scoped_lock lock(ready_lock_);
    std::rethrow_exception(error_);
  }
  if (contribution.data == nullptr && table_[index].bytes() > 0) {
    throw UsageError("the gradient of '" + table_[index].name + "' is a null pointer");
  }
  const int expected = table_[index].on_device ? settings_.options.device : -1;
  if (contribution.ready.on_host() ? expected >= 0 : contribution.ready.device != expected) {
    throw UsageError("the gradient of '" + table_[index].name + "' has a stream of " +
                     place_text(contribution.ready.device) + ", but the table of gradients says " +
                     place_text(expected));
  }
  refuse_capture("the gradient of '" + table_[index].name + "' is in", contribution.ready);
  if (contributions_[index].data != nullptr) {
    throw UsageError("the gradient of '" + table_[index].name +
                     "' was already contributed in this round; accumulate several backward passes under no_sync(), or "
                     "call step() after each");
  }
}

// A graph would repeat what the device does in this round without what the hosts agree on in each.
void GradientRounds::refuse_capture(const std::string& what, Stream stream) const {
  if (stream.on_host() || host_.lane() == nullptr || (frozen_ && frozen_->solo)) return;
  if (!host_.lane()->is_captured(stream)) return;
  throw UsageError(
      what +
      " a stream that is being captured into a CUDA graph, but every round needs the CPUs of all ranks. Capture "
      "forward and backward under no_sync(), and call step() after the graph has been launched");
}

void GradientRounds::contribute(std::size_t index, const void* data, Stream ready) {
  check_contribution(index, {data, ready});
  add(index, {data, ready}, nullptr);
}

void GradientRounds::contribute_in_place(std::size_t index, void* data) {
  check_contribution(index, {data, {}});
  const bool placed = frozen_ && !table_changed_ && frozen_->arena && frozen_->arena->pin(data, table_[index].bytes());
  add(index, {data, {}}, placed ? static_cast<std::byte*>(data) : nullptr);
}

// `place`: the same as data where it stays there; null: it is packed.
void GradientRounds::add(std::size_t index, Contribution contribution, std::byte* place) {
  if (!round_open_) begin_round();
  if (contribution.data == nullptr) contribution.data = &kNothing;
  contributions_[index] = contribution;
  order_.push_back(static_cast<std::uint32_t>(index));
  if (!frozen_ || table_changed_) return;
  const auto [bucket, slot] = frozen_->places[index];
  Bucket& target = *frozen_->buckets[bucket];
  bool full = false;
  {
    const telemetry::Span span(host_.step_recorder(), frozen_->solo ? nullptr : "pack", table_[index].bytes());
    full = place == nullptr ? target.pack(slot, contribution.data, contribution.ready) : target.place(slot, place);
  }
  // The last one waits for finish(): see the head of the header.
  if (full && not_handed_over_ > 1 && settings_.overlap) hand_over(bucket);
  host_.progress_without_waiting();
}

std::shared_ptr<GradientMemory> GradientRounds::memory() const { return frozen_ ? frozen_->arena : nullptr; }

void GradientRounds::change_table(std::vector<GradientInfo> table) {
  if (!order_.empty()) {
    throw UsageError(
        "the table of gradients cannot change during a round. Call change_table() before the first contribute(): after "
        "step() and before backward()");
  }
  if (const auto refusal = refusal_of(table, settings_.options); !refusal.empty()) throw UsageError(refusal);
  table_ = std::move(table);
  contributions_.assign(table_.size(), {});
  table_changed_ = true;
}

// The caller is in the next round, and reads no more of what came before. Nobody else does: the round that was void is
// complete, or hopeless, and then nothing is contributed any more.
void GradientRounds::begin_round() {
  let_go(std::exchange(retired_, nullptr));
  open_buckets();
}

void GradientRounds::open_buckets() {
  if (frozen_) {
    // Last round's results are read no more than what is enqueued by now says. A round that fails writes none, and goes
    // on also where the device is lost.
    if (user_ && failure_.empty()) host_.lane()->order_after(*user_);
    for (auto& bucket : frozen_->buckets) bucket->open({generation_, round_, step_fingerprint_});
    handed_over_.assign(frozen_->buckets.size(), false);
    not_handed_over_ = handed_over_.size();
    as_void_ = table_changed_;
  }
  if (!round_open_.exchange(true)) host_.round_opened(settings_.id);
}

void GradientRounds::hand_over(std::size_t bucket) {
  handed_over_[bucket] = true;
  --not_handed_over_;
  in_flight_.fetch_add(1);
  {
    const std::scoped_lock lock(ready_lock_);
    ready_.push_back({bucket, as_void_});
  }
  host_.notify();
}

bool GradientRounds::advance() {
  if (in_flight_.load() == 0) return false;
  std::vector<Ready> ready;
  {
    const std::scoped_lock lock(ready_lock_);
    if (hopeless()) return false;
    ready.swap(ready_);
  }
  for (const auto& [bucket, as_void] : ready) launch(bucket, as_void);
  bool moved = !ready.empty();
  for (auto index = launched_.begin(); index != launched_.end();) {  // as it is when one of them throws
    auto& bucket = *frozen_->buckets[*index];
    const bool complete = bucket.advance();
    moved |= complete || bucket.moved();
    if (!complete) {
      ++index;
      continue;
    }
    note_complete(*index);
    index = launched_.erase(index);
  }
  return moved;
}

void GradientRounds::progress() { host_.progress_without_waiting(); }

Awaited GradientRounds::awaited() const {
  std::vector<Rank> ranks;
  for (const auto bucket : launched_) {
    for (const Rank rank : frozen_->buckets[bucket]->waiting_for()) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::string text = "round " + std::to_string(round_) + " of gradients/" + std::to_string(settings_.id);
  if (!ranks.empty()) text += ": waiting for " + base::ranks_text(ranks);
  if (!launched_.empty()) {
    const auto& first = frozen_->plan.buckets[launched_.front()].tensors.front();
    text += " at the bucket of '" + table_[first.index].name + "'";
    if (std::ranges::binary_search(ranks, host_.rank())) text += ", which the device of this rank has not packed yet";
  }
  return {ranks, text};
}

void GradientRounds::wait_for_buckets() {
  drive([this] { return in_flight_.load() == 0 || hopeless(); });
  const std::scoped_lock lock(ready_lock_);
  if (in_flight_.load() == 0) return;
  if (error_) std::rethrow_exception(error_);
  const auto [ranks, text] = awaited();
  throw TimeoutError(ranks, text);
}

std::vector<std::size_t> GradientRounds::take_complete() {
  const std::scoped_lock lock(ready_lock_);
  return std::exchange(complete_, {});
}

// Until there is nothing to pass on any more. Why the rest does not come, if it does not, is for others to say.
void GradientRounds::pass_on(const OnReduced& reduced) {
  const auto some = [this] {
    const std::scoped_lock lock(ready_lock_);
    return !complete_.empty() || in_flight_.load() == 0 || hopeless();
  };
  for (;;) {
    drive(some);
    const auto buckets = take_complete();
    if (buckets.empty() || hopeless()) return;
    for (const std::size_t number : buckets) {
      const Bucket& bucket = *frozen_->buckets[number];
      if (bucket.voided() || !bucket.stamps_agree()) return;
      for (const PlannedTensor& tensor : frozen_->plan.buckets[number].tensors) {
        reduced(tensor.index);
        host_.progress_without_waiting();  // peers wait for this rank's part of what is still on its way
      }
    }
  }
}

// Hands over whatever has not left yet.
void GradientRounds::close_round() {
  if (!round_open_) open_buckets();
  if (!frozen_) return;
  as_void_ = as_void_ || !failure_.empty();
  const RoundNotices::Bits notices = host_.notices().raised();
  for (std::size_t bucket = 0; bucket < frozen_->buckets.size(); ++bucket) {
    if (handed_over_[bucket]) continue;
    frozen_->buckets[bucket]->close(!another_.empty(), notices);
    if (!as_void_) frozen_->buckets[bucket]->clear_missing();
    hand_over(bucket);
  }
}

// Each rank has closed the last bucket at least.
void GradientRounds::receive_notices() {
  if (frozen_->buckets.empty()) return;
  RoundNotices::Bits bits = 0;
  for (const auto& bucket : frozen_->buckets) bits |= bucket->notices();
  host_.notices().receive(bits);
}

// Whether some ranks, and not all, have another round in this step: each has closed a bucket at least. By negotiating
// this round they hear whose it is.
bool GradientRounds::disagree_on_another() const {
  const auto any = [this](bool (Bucket::*said)() const noexcept) {
    return std::ranges::any_of(frozen_->buckets, [said](const auto& bucket) { return (*bucket.*said)(); });
  };
  return any(&Bucket::has_another) && any(&Bucket::has_no_other);
}

bool GradientRounds::fingerprints_agree() const {
  return std::ranges::all_of(frozen_->buckets, [](const auto& bucket) { return bucket->same_fingerprint(); });
}

bool GradientRounds::dropped() const {
  return std::any_of(frozen_->buckets.begin(), frozen_->buckets.end(),
                     [](const auto& bucket) { return bucket->voided(); });
}

void GradientRounds::finish(Stream user, const OnReduced& reduced) {
  const telemetry::Range range("kolo: finish round", round_);
  if (failure_.empty()) refuse_capture("the round ends in", user);
  owner_.store(std::this_thread::get_id());
  close_round();
  bool negotiated = !frozen_;
  bool alike = true;
  try {
    if (frozen_) {
      if (reduced && !on_device()) pass_on(reduced);
      wait_for_buckets();
      for (const auto& bucket : frozen_->buckets) {
        if (!bucket->same_round())
          throw MismatchError("ranks are in different rounds of gradients/" + std::to_string(settings_.id) +
                              ". Do all ranks make the same number of steps?");
      }
      alike = fingerprints_agree();
      if (!alike || disagree_on_another() || dropped()) {
        host_.counters().plans_voided.add();
        let_go(std::exchange(retired_, std::move(frozen_)));
        negotiated = true;
      }
    }
    if (negotiated) negotiate(alike);
  } catch (...) {
    if (host_.lane() != nullptr && !user.on_host()) host_.lane()->order_before(user);
    release_contributors();
    end_round(true);
    throw;
  }
  receive_notices();
  hand_results_to(user);
  (negotiated ? host_.counters().plan_misses : host_.counters().plan_hits).add();
  end_round(false);
}

// The round is over, also where that is an error.
void GradientRounds::hand_results_to(Stream user) {
  if (!frozen_ || !on_device()) return;
  try {
    for (const auto& bucket : frozen_->buckets) bucket->hand_to(user);
  } catch (...) {
    end_round(false);
    throw;
  }
  if (!frozen_->solo) user_ = user;  // nothing of kolo's is written, which readers would have to be waited for
}

// `alike`: the step fingerprints of all ranks agree. Else they are compared with the settings, which ends negotiation
// with a MismatchError that names the ranks and both values.
void GradientRounds::negotiate(bool alike) {
  table_changed_ = false;
  const auto& current = settings_.options.current_settings;  // whose maker may be gone where the round has failed
  std::string settings = current && failure_.empty() ? current() : std::string();
  if (!alike) {
    settings += (settings.empty() ? "" : ", ") + ("step fingerprint " + std::to_string(step_fingerprint_));
  }
  auto entry = make_entry(settings);
  entry.beside = host_.open_beside(settings_.id);
  auto work = host_.submit_round(std::move(entry), on_device(), [this](const Item& item) { freeze(item); });
  try {
    const telemetry::Span span(host_.step_recorder(), "negotiation");
    const telemetry::RecordedWait wait(host_.step_recorder());
    work.wait();  // MismatchError and PeerFailedError end here; everything is listed, or nothing
  } catch (const MismatchError& error) {
    if (alike) throw;
    throw MismatchError(std::string(error.what()) + kFingerprintAdvice);
  }
  wait_for_buckets();
}

bool GradientRounds::on_device() const {
  return std::any_of(table_.begin(), table_.end(), [](const GradientInfo& row) { return row.on_device; });
}

// Progress lock held. The contributing thread is inside negotiate(), so everything here is at rest.
void GradientRounds::freeze(const Item& item) {
  frozen_ = make_frozen(item);
  ++generation_;
  try {
    fill_buckets();
  } catch (const GroupFailure&) {
    throw;
  } catch (const BackendError& error) {  // the peers have their buckets, and wait for this rank's
    throw GroupFailure(error.what());
  }
}

void GradientRounds::fill_buckets() {
  open_buckets();
  for (std::size_t index = 0; index < table_.size(); ++index) {
    const auto [bucket, slot] = frozen_->places[index];
    const auto& [data, ready] = contributions_[index];
    if (data != nullptr) frozen_->buckets[bucket]->pack(slot, data, ready);
  }
  close_round();
}

void GradientRounds::end_round(bool failed) {
  // With a bucket still in flight, the group has ended: what peers may yet write to is never used again.
  if (in_flight_.load() == 0) {
    for (const auto* plan : {frozen_.get(), retired_.get()}) {
      if (plan != nullptr && plan->arena) plan->arena->unpin();
    }
  }
  // Without a bucket nothing could carry `void` or `failed`: such rounds are negotiated each time.
  if (frozen_ && frozen_->buckets.empty()) frozen_.reset();
  std::fill(contributions_.begin(), contributions_.end(), Contribution{});
  order_.clear();
  static_cast<void>(take_complete());
  round_open_ = false;
  doomed_ = false;
  another_.clear();
  step_fingerprint_ = 0;
  failure_.clear();
  ++round_;
  finished_rounds_.fetch_add(1);
  host_.round_ended(settings_.id, failed);
}

// Packs that are on their way still read what was contributed to a round that has failed: the streams that it came
// from, in which its memory may be used again next, go on behind them.
void GradientRounds::release_contributors() noexcept {
  if (host_.lane() == nullptr) return;
  const Contribution* last = nullptr;
  for (const auto& each : contributions_) {
    if (each.data == nullptr || each.ready.on_host()) continue;
    if (last != nullptr && last->ready.handle == each.ready.handle) continue;
    host_.lane()->order_before(each.ready);
    last = &each;
  }
}

// The stream goes too: what it reads by now is waited for, once and for all.
void GradientRounds::leave_user() noexcept {
  const auto user = std::exchange(user_, std::nullopt);
  if (!user) return;
  try {
    host_.lane()->order_after(*user);
  } catch (const std::exception&) {  // a lost device has no order
  }
}

// Whoever else reads them does so after negotiating a round that has not failed, and this one will.
void GradientRounds::let_go_of_contributions() {
  release_contributors();
  leave_user();
  std::fill(contributions_.begin(), contributions_.end(), Contribution{});
  if (!frozen_) return;
  for (const auto& bucket : frozen_->buckets) bucket->let_go_of_contributions();
}

void GradientRounds::doom() {
  doomed_ = true;
  host_.round_opened(settings_.id);
}

void GradientRounds::fail(const std::string& text) {
  failure_ = text.empty() ? "no text" : text;
  if (!round_open_) open_buckets();
  finish(Stream{.handle = nullptr, .device = settings_.options.device});
}

void GradientRounds::poison(std::exception_ptr error, std::uint64_t from_round) {
  const std::scoped_lock lock(ready_lock_);
  if (from_round >= error_from_.load()) return;
  error_ = std::move(error);
  error_from_.store(from_round);
}

std::span<std::byte> GradientRounds::gradient(std::size_t index) {
  check_index(index);
  if (!frozen_ || table_changed_) {
    throw UsageError("no round of gradients with this table has been reduced yet: call finish() first");
  }
  const auto [bucket, slot] = frozen_->places[index];
  return frozen_->buckets[bucket]->tensor(slot, table_[index].bytes());
}

bool GradientRounds::contributed(std::size_t index) const {
  check_index(index);
  if (!frozen_ || table_changed_) return false;
  const auto [bucket, slot] = frozen_->places[index];
  return frozen_->buckets[bucket]->contributed(slot);
}

}  // namespace kolo::engine
