#pragma once
// The engine: requests in, collectives out.
//
// Threads. submit() may be called from anywhere; it only queues. Everything else of the named channel happens in
// progress(), under one lock, by whoever has time: waiters, hooks in passing, the coordinator. User code that runs
// under the lock: Config::log_sink, and ReducerOptions::release_cached_memory. What is where: engine_impl.cpp (calls of
// the user's threads), engine_progress.cpp (under the lock), engine_deadlines.cpp (under the lock, now and then),
// engine_failures.cpp (how it ends), engine_stalls.cpp (what ranks tell each other when they wait too long),
// engine_devices.cpp (the lane).
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/communicators.h"
#include "engine/control_channel.h"
#include "engine/coordinator.h"
#include "engine/driver.h"
#include "engine/engine_parts.h"
#include "engine/failure_places.h"
#include "engine/gradient_rounds.h"
#include "engine/heartbeat.h"
#include "engine/named_executor.h"
#include "engine/negotiation.h"
#include "engine/round_history.h"
#include "engine/submission.h"
#include "engine/turn_agreement.h"
#include "engine/unnamed_calls.h"
#include "engine/work_state.h"
#include "kolo/config.h"
#include "kolo/spi/engine.h"

namespace kolo::engine {

class EngineImpl final : public Engine, public Driver, public RoundHost, private NegotiationHost {
 public:
  static std::shared_ptr<EngineImpl> make(EngineParts parts);
  explicit EngineImpl(EngineParts parts);
  ~EngineImpl() override;

  [[nodiscard]] EngineLifetime lifetime() const noexcept override { return EngineLifetime(lease_.offer()); }
  [[nodiscard]] bool is_stopped() const noexcept override { return stopped_.load(); }
  [[nodiscard]] int size() const noexcept override { return parts_.placement.size; }
  Work submit(Request request) override;
  Work submit_internal(Request request) override { return Work(submit_named(std::move(request))); }
  bool progress() override;
  bool progress_without_waiting() override;
  std::unique_ptr<GradientReducer> make_reducer(std::vector<GradientInfo> table, ReducerOptions options) override;
  [[nodiscard]] Engine& for_gradients() noexcept override;
  [[nodiscard]] telemetry::Recorder& step_recorder() noexcept override { return *parts_.recorder; }
  [[nodiscard]] RoundNotices& notices() noexcept override { return notices_; }
  std::unique_ptr<StepLauncher> make_step_launcher() override;
  [[nodiscard]] bool has_kernels(int device) const noexcept override;
  void normalize_images(const ImageBatch& batch, Stream stream) override;
  void wait_for_devices() override;
  void fail_round(const std::exception& error) noexcept override;
  // Ends: what is listed is completed, what is pending fails, neighbours are told. Idempotent. Never throws.
  void stop() noexcept;
  // After stop(): true if no thread waits in it, so that it may be destroyed.
  [[nodiscard]] bool end_lease();
  bool drive_until(const std::function<bool()>& done, std::chrono::milliseconds timeout) override;
  [[nodiscard]] Awaited whom_for(const std::string& name) override;
  void told(const std::exception_ptr& error) override;
  // For waits of a library's, also inside this engine's own calls: throws what has ended the group. Thread-safe.
  void check_others();
  // True if a failure has ended the group: not a rank that left in order. Thread-safe.
  [[nodiscard]] bool has_failed();
  // The rank whose loss has ended the engine. Thread-safe.
  [[nodiscard]] std::optional<Rank> lost_rank();
  // What this rank is doing, for one who waits for it at `operation` (empty: a round). Thread-safe; does not block.
  [[nodiscard]] Activity activity(const std::string& operation);

  [[nodiscard]] Rank rank() const noexcept override { return parts_.placement.rank; }
  [[nodiscard]] telemetry::Counters& counters() noexcept override { return *parts_.counters; }
  [[nodiscard]] CommunicatorFactory& communicators() noexcept override { return parts_.communicators; }
  [[nodiscard]] Communicator& allocator() noexcept override { return executor_.communicator(); }
  [[nodiscard]] std::chrono::milliseconds timeout() const noexcept override { return parts_.config->timeout; }
  void warn(const std::string& line) override { parts_.log(LogLevel::warn, line); }
  [[nodiscard]] bool group_has_ended() const noexcept override { return negotiation_.has_ended(); }
  Work submit_table(Entry entry, std::size_t id) override;
  Work submit_round(Entry entry, bool on_device, std::function<void(const Item&)> when_listed) override;
  void notify() override;
  [[nodiscard]] std::vector<std::uint32_t> open_beside(std::size_t id) override;
  void round_opened(std::size_t id) override;
  void round_ended(std::size_t id, bool failed) override;
  void drive_round(const std::function<bool()>& done, const std::function<Awaited()>& awaited) override;
  void forget(GradientRounds& rounds) override;
  void orphan(std::unique_ptr<GradientRounds> rounds) noexcept override;
  void bury(std::shared_ptr<void> memory) override;
  void retire(std::shared_ptr<void> memory, Stream user) noexcept override;
  [[nodiscard]] device::Lane* lane() noexcept override { return lane_.get(); }

 private:
  std::shared_ptr<WorkState> submit_named(Request request);
  std::shared_ptr<WorkState> enqueue(Submission submission);
  // Who moves things forward. A hook never waits. The coordinator leaves requests that are still coming in together.
  enum class Visitor { hook, poller, waiter, coordinator };
  void note_change_of_place();  // the program's thread comes to wait in kolo, or goes back to code of its own
  bool drive_with_warning(const std::function<bool()>& done, const std::function<Awaited()>& awaited);
  [[nodiscard]] Stall ask_about(const std::string& operation, std::vector<Rank> named, bool chain);
  [[nodiscard]] bool answered(const Stall& stall) const;
  [[nodiscard]] std::string what_they_say(const Stall& stall) const;
  [[nodiscard]] std::string waits_at();
  bool try_advance(Visitor visitor);
  bool drive(Visitor visitor, const std::function<bool()>& done, std::chrono::milliseconds timeout);
  [[nodiscard]] bool requests_settled() const;
  void start_coordinator();
  void complete_listed();
  [[nodiscard]] bool pending() const noexcept;
  void need_lane(int device);
  void watch_lane_between_calls() noexcept;
  [[nodiscard]] GradientRounds* expected_reducer(bool among_open = false);
  void doom_companions(const GradientRounds& first);
  void fail_open_rounds(GradientRounds* first, const std::string& text);
  void drop_orphans();
  void end_round(const std::exception& error);
  [[nodiscard]] GradientRounds* round_of_failure(const std::exception& error);
  void announce_failure(const std::exception& error, const GradientRounds* rounds);
  [[nodiscard]] base::CallLimit::Hooks call_hooks();
  void settle_failure();
  void limit_calls(const Fatal& failure, std::uint64_t number);
  [[nodiscard]] bool idle_since_failure() const;
  void remember(const std::string& text);
  [[nodiscard]] bool known_to_peers(const std::exception& error);
  void submit_again();
  [[nodiscard]] bool has_passed(const Fatal& failure, std::uint64_t number);
  void end_overtaken(std::uint64_t number);
  void end_overtaken(const Fatal& failure);
  void end_calls(const Fatal& fatal, const std::exception_ptr& error);
  void say_why(Fatal& leaving);
  [[nodiscard]] std::exception_ptr current_fatal();
  [[nodiscard]] std::exception_ptr to_exception(const Fatal& fatal, std::uint64_t failure = 0) const;
  void release(const std::string& name);
  void fail(Pending& pending, const std::exception_ptr& error);
  void check_deadlines();
  [[nodiscard]] std::chrono::microseconds nap(Visitor visitor, std::chrono::microseconds length);

  // Progress lock held. Allocating waits for the other ranks: only where a thread waits anyway.
  bool advance(Visitor visitor);
  bool advance_rounds(Visitor visitor);
  void watch_lane();
  bool drain();
  bool receive();
  bool converse();
  bool say_last_words() noexcept;
  [[nodiscard]] bool all_said() noexcept;
  void send(Rank to, const Envelope& envelope) override;
  void execute(const Item& item, std::uint32_t depth) override;
  bool run_listed(bool may_wait);
  [[nodiscard]] bool needs_wait(const Listed& listed) const;
  [[nodiscard]] bool takes_turn(const Listed& listed);
  void run(Listed& listed);
  void start_named(Listed& listed);
  void run_round(Submission& round, const Item& item);
  void count_executing();
  void while_allocating();
  void withdrawn(const Withdrawal& withdrawal) override;
  void failed(const Fatal& failure) override;
  void heard_by_all(std::uint64_t epoch) override;
  std::vector<Submission> take_queued();
  void ended(const Fatal& fatal) override;
  void end_the_rest(const Fatal& fatal);
  void fail_listed_from(std::uint64_t sequence, const std::exception_ptr& error);
  void hear_last_words() noexcept;
  void judge_held_failure();
  void end_held();
  void end_by(const Fatal& fatal);
  void fail_unlisted(const std::exception_ptr& error, bool rounds_too);
  bool poison_by(const std::exception_ptr& error);
  // Ended by a rank that has left in order, and nothing else has happened: what it had taken part in completes.
  [[nodiscard]] bool completing() const noexcept { return farewell_.has_value() && !cut_off_; }
  void say_goodbye(const std::exception_ptr& unfinished);
  void watch_submission(const std::string& name, Submission& submission, std::chrono::steady_clock::time_point now);
  void watch_submitted(std::chrono::steady_clock::time_point now);
  void watch_awaited(std::chrono::steady_clock::time_point now);
  void watch_executing(std::chrono::steady_clock::time_point now);
  void watch_plan(std::chrono::steady_clock::time_point now);
  [[nodiscard]] std::chrono::milliseconds report_after() const;

  EngineParts parts_;
  Lease lease_{*this};   // Works have an offer of it
  std::string failing_;  // why this rank ends a round; peers hear of it also if they do not come to that round
  std::atomic<std::chrono::milliseconds> round_timeout_;
  UnnamedCalls unnamed_;
  RoundNotices notices_;
  std::mutex queue_lock_;
  std::vector<Submission> queue_;           // guarded by queue_lock_
  std::set<std::string> names_;             // pending here; guarded by queue_lock_
  std::exception_ptr fatal_;                // guarded by queue_lock_
  std::optional<Rank> lost_rank_;           // guarded by queue_lock_
  std::atomic<bool> stopped_{false};        // written under queue_lock_
  RoundHistory history_;                    // guarded by queue_lock_
  FailurePlaces places_;                    // guarded by queue_lock_
  std::deque<std::string> told_;            // errors of peers that the program has had; guarded by queue_lock_
  std::optional<std::string> own_failure_;  // of training code, nothing asked for since; guarded by queue_lock_

  std::atomic<int> queued_{0};
  std::atomic<int> active_{0};
  std::atomic<int> executing_{0};
  std::atomic<bool> kicked_{false};
  std::atomic<bool> unsent_{false};   // something that was said is not with the transport's medium yet
  std::atomic<int> waiters_{0};       // threads of the user's in drive()
  std::atomic<bool> napping_{false};  // on the transport, with progress_lock_
  std::atomic<int> askers_{0};        // who want to see at what this rank waits: naps leave them the lock
  std::atomic<std::chrono::steady_clock::rep> last_request_{0};
  std::atomic<std::chrono::steady_clock::rep> changed_place_{
      std::chrono::steady_clock::now().time_since_epoch().count()};  // when one of the waiters came or went
  std::unique_ptr<device::Lane> lane_;                   // made once, before the first reducer that needs it
  std::atomic<device::Lane*> published_lane_ = nullptr;  // the same, for who must not wait for the lock

  std::atomic<std::thread::id> advancing_{};      // who is in advance()
  std::atomic<std::thread::id> watching_lane_{};  // who is in watch_lane_between_calls()
  std::mutex progress_lock_;                      // guards everything from here on
  std::unique_ptr<ControlChannel> control_;       // null in a world of one
  NamedExecutor executor_;
  Negotiation negotiation_;
  std::map<std::string, Submission> submitted_;
  std::deque<Listed> listed_;                             // in order, not begun
  std::optional<PlanTurn> plan_turn_;                     // for the first of listed_
  std::chrono::steady_clock::time_point plan_since_;      // when it was asked for
  std::vector<GradientRounds*> rounds_;                   // registered reducers, borrowed
  std::vector<std::unique_ptr<GradientRounds>> orphans_;  // unwound by an exception that has not reached fail_round()
  std::vector<std::shared_ptr<void>> buried_;             // memory that peers may still write to
  std::map<std::string, std::chrono::steady_clock::time_point> awaited_since_;  // until reported: what others wait for
  std::uint64_t own_failed_at_ = 0;     // epoch of this rank's last failure; 0: none, or it has not come back yet
  std::uint64_t own_failed_after_ = 0;  // so many calls
  std::atomic<std::uint64_t> own_failures_{0};  // of this rank's training code, announced; written under the lock
  const std::function<Awaited()>* awaited_ = nullptr;  // of the round that is being waited for
  std::exception_ptr lane_failure_;                    // seen between calls
  std::optional<HeldFailure> held_;
  std::optional<Rank> farewell_;                            // ended by this rank, which has left in order
  bool cut_off_ = false;                                    // ended, and nothing more completes
  std::uint64_t running_sequence_ = 0;                      // of the item that is being begun
  std::chrono::steady_clock::time_point last_words_until_;  // ended: what is to be said has time until then
  std::uint64_t cut_sequence_ = 0;                          // ended: items from here on cannot complete
  std::size_t reducers_made_ = 0;
  std::uint64_t transfers_seen_ = 0;           // how many the transport had completed when somebody last looked
  std::vector<std::uint64_t> finished_by_id_;  // rounds of reducers that are gone, 0 for those that are not
  std::chrono::steady_clock::time_point last_watch_;
  std::unique_ptr<Coordinator> coordinator_;  // last, these two: they use everything above
  std::unique_ptr<Heartbeat> lane_watch_;
};

}  // namespace kolo::engine
