#pragma once
// One optimizer's rounds: the plan channel. docs/protocol.md, "Plan channel".
//
//   Negotiating --(all ranks' tables agree; the item carries the order)--> Frozen --(someone says void)--> Negotiating
//
// Negotiating: contributions are only noted; finish() submits the whole round as one named operation. When it is
// listed, every rank builds the same plan from the root's order, and the round runs on it at once.
// Frozen: contributions are packed and buckets leave when full; nothing but buckets is sent.
// The last bucket never leaves before finish(), so that a rank whose world changed always has a carrier for `void`.
#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "device/lane.h"
#include "engine/bucket.h"
#include "engine/communicators.h"
#include "engine/driver.h"
#include "engine/gradient_arena.h"
#include "engine/messages.h"
#include "engine/plan.h"
#include "kolo/spi/communicator.h"
#include "kolo/spi/gradient_reducer.h"
#include "kolo/spi/round_notices.h"
#include "telemetry/counters.h"
#include "telemetry/recorder.h"

namespace kolo::engine {

// What a reducer needs of the engine around it. Implemented by EngineImpl.
class RoundHost {
 public:
  virtual ~RoundHost() = default;
  [[nodiscard]] virtual Rank rank() const noexcept = 0;
  [[nodiscard]] virtual telemetry::Counters& counters() noexcept = 0;
  [[nodiscard]] virtual telemetry::Recorder& step_recorder() noexcept = 0;
  [[nodiscard]] virtual RoundNotices& notices() noexcept = 0;
  [[nodiscard]] virtual CommunicatorFactory& communicators() noexcept = 0;
  [[nodiscard]] virtual Communicator& allocator() noexcept = 0;  // whose allocate() is called in list order
  [[nodiscard]] virtual std::chrono::milliseconds timeout() const noexcept = 0;
  virtual void warn(const std::string& line) = 0;
  [[nodiscard]] virtual bool group_has_ended() const noexcept = 0;
  // Submits one named operation for the round and returns its handle. `on_device`: when listed it takes a turn on the
  // lane.
  virtual Work submit_table(Entry entry, std::size_t id) = 0;
  virtual Work submit_round(Entry entry, bool on_device, std::function<void(const Item&)> when_listed) = 0;
  // There is a bucket to launch.
  virtual void notify() = 0;
  // As Engine::progress(), but never waits for other ranks. For hooks.
  virtual bool progress_without_waiting() = 0;
  // Other reducers, by id, that have a round open here, or one that will end as failed.
  [[nodiscard]] virtual std::vector<std::uint32_t> open_beside(std::size_t id) = 0;
  // A round of the reducer begins, or is over; `failed`: by an error, on all ranks.
  virtual void round_opened(std::size_t id) = 0;
  virtual void round_ended(std::size_t id, bool failed) = 0;
  // As Driver::drive_until with the engine's own timeout; when that passes the group ends, and says `awaited()`.
  virtual void drive_round(const std::function<bool()>& done, const std::function<Awaited()>& awaited) = 0;
  // The reducer ends.
  virtual void forget(class GradientRounds& rounds) = 0;
  // The reducer's owner was unwound by an exception; the round is ended when that has been reported.
  virtual void orphan(std::unique_ptr<class GradientRounds> rounds) noexcept = 0;
  // For gradients on a device; null: the engine has none yet.
  [[nodiscard]] virtual device::Lane* lane() noexcept = 0;
  // Peers may still write to `memory`: it is kept as long as the engine.
  virtual void bury(std::shared_ptr<void> memory) = 0;
  // The device, in its lane or in `user` (of the host: in no other), may still use `memory`: kept until that has
  // passed.
  virtual void retire(std::shared_ptr<void> memory, Stream user) noexcept = 0;
};

struct RoundSettings {
  std::size_t id = 0;
  ReducerOptions options;
  PlanCaps caps;
  bool overlap = true;  // see Config, as the next one
  Algorithm algorithm = Algorithm::automatic;
};

class GradientRounds final : public GradientReducer {
 public:
  GradientRounds(RoundHost& host, std::vector<GradientInfo> table, RoundSettings settings);
  ~GradientRounds() override;
  // Its buckets take turns on the lane. REQUIRES: there is one. Once.
  void use_lane();

  // Compares the tables of all ranks; collective.
  void verify();

  void contribute(std::size_t index, const void* data, Stream ready) override;
  void contribute_in_place(std::size_t index, void* data) override;
  [[nodiscard]] std::shared_ptr<GradientMemory> memory() const override;
  void change_table(std::vector<GradientInfo> table) override;
  void need_another_round(const std::string& what) override { another_ = what; }
  void set_step_fingerprint(std::uint64_t fingerprint) override { step_fingerprint_ = fingerprint; }
  using GradientReducer::finish;
  void finish(Stream user, const OnReduced& reduced) override;
  [[nodiscard]] std::span<std::byte> gradient(std::size_t index) override;
  [[nodiscard]] bool contributed(std::size_t index) const override;
  [[nodiscard]] std::uint64_t generation() const noexcept override { return generation_; }
  [[nodiscard]] std::string name() const override { return name_of(settings_.id); }
  [[nodiscard]] std::uint64_t round() const noexcept override { return finished_rounds_.load(); }
  void progress() override;

  // Under the engine's progress lock: launches what is ready and advances what is launched. True when anything moved.
  bool advance();
  // Rounds from `from_round` on cannot be completed any more: their waits rethrow `error`. Thread-safe.
  void poison(std::exception_ptr error, std::uint64_t from_round);
  // What was contributed may be gone: it is not read any more. Under the progress lock.
  void let_go_of_contributions();
  // A round beside this one has failed, and this one, which is open on some rank or would be, will end so too. Under
  // the progress lock.
  void doom();
  // Completes this round as failed, so that peers learn `text`. Throws what finish() throws.
  void fail(const std::string& text);
  [[nodiscard]] std::uint64_t rounds_finished() const noexcept { return finished_rounds_.load(); }
  [[nodiscard]] bool busy() const noexcept { return in_flight_.load() > 0; }
  // A round is open here or, where it will end as failed, on another rank.
  [[nodiscard]] bool round_to_end() const noexcept { return round_open_.load() || doomed_.load(); }
  [[nodiscard]] std::size_t id() const noexcept { return settings_.id; }
  // Of the rounds' submissions.
  [[nodiscard]] static std::string name_of(std::size_t id) { return "gradients/" + std::to_string(id); }
  // Of the request by which all ranks compare their tables, before the first round.
  [[nodiscard]] static std::string table_name_of(std::size_t id) { return name_of(id) + "/table"; }
  // Whether it is, or may be, the calling thread that closes the rounds.
  [[nodiscard]] bool mine() const noexcept {
    const auto owner = owner_.load();
    return owner == std::thread::id() || owner == std::this_thread::get_id();
  }

 private:
  struct Place {
    std::uint32_t bucket = 0;
    std::uint32_t slot = 0;
  };
  struct Frozen {
    Plan plan;
    std::shared_ptr<GradientArena> arena;  // shared with whoever makes gradients in it; null: none
    std::vector<std::unique_ptr<Bucket>> buckets;
    std::vector<Place> places;  // by tensor
    bool solo = false;          // of a rank that is alone: nothing is packed
  };
  // Of the host: one for each bucket there, and one in which gradients are made, or null.
  struct HostMemory {
    std::vector<std::unique_ptr<RegisteredBuffer>> buckets;
    std::unique_ptr<RegisteredBuffer> arena;
  };
  [[nodiscard]] bool may_scatter(const PlannedBucket& bucket) const;
  [[nodiscard]] HostMemory allocate(const Plan& plan, std::size_t arena_bytes);
  [[nodiscard]] HostMemory allocate_with_arena(const Plan& plan);
  [[nodiscard]] Entry make_entry(const std::string& settings) const;
  struct Contribution {
    const void* data = nullptr;  // null: not contributed; borrowed until finish() returns
    Stream ready;
  };
  void check_contribution(std::size_t index, const Contribution& contribution);
  void refuse_capture(const std::string& what, Stream stream) const;
  void add(std::size_t index, Contribution contribution, std::byte* place);
  [[nodiscard]] std::unique_ptr<Bucket> make_host_bucket(const PlannedBucket& plan,
                                                         std::unique_ptr<RegisteredBuffer> memory,
                                                         RegisteredBuffer* home);
  [[nodiscard]] std::unique_ptr<class BucketOnDevice> make_device_bucket(const PlannedBucket& plan);
  [[nodiscard]] bool on_device() const;
  void let_go(std::unique_ptr<Frozen> plan);
  [[nodiscard]] std::unique_ptr<Frozen> make_frozen(const Item& item);
  void make_solo_buckets(Frozen& next);
  void make_buckets(Frozen& next);
  void freeze(const Item& item);
  void fill_buckets();
  void begin_round();
  void open_buckets();
  void hand_over(std::size_t bucket);
  void close_round();
  void launch(std::size_t bucket, bool as_void);
  void note_complete(std::size_t bucket);
  [[nodiscard]] bool is_recorded(std::size_t bucket) const;
  void drive(const std::function<bool()>& done);
  void wait_for_buckets();
  void pass_on(const OnReduced& reduced);
  [[nodiscard]] std::vector<std::size_t> take_complete();
  void hand_results_to(Stream user);
  void negotiate(bool alike);
  void end_round(bool failed);
  void release_contributors() noexcept;
  void leave_user() noexcept;
  void check_index(std::size_t index) const;
  void receive_notices();
  [[nodiscard]] bool disagree_on_another() const;
  [[nodiscard]] bool fingerprints_agree() const;
  [[nodiscard]] bool dropped() const;
  [[nodiscard]] bool hopeless() const noexcept { return finished_rounds_.load() >= error_from_.load(); }
  [[nodiscard]] Awaited awaited() const;

  RoundHost& host_;
  std::vector<GradientInfo> table_;
  RoundSettings settings_;
  std::unique_ptr<Frozen> frozen_;
  std::unique_ptr<Frozen> retired_;  // what was contributed in place lies in it: kept until the next round begins
  bool table_changed_ = false;
  std::uint64_t step_fingerprint_ = 0;  // 0: agrees with any
  std::string another_;                 // for what a round has to follow this one in the same step
  std::atomic<bool> round_open_{false};
  std::atomic<bool> doomed_{false};
  std::atomic<std::thread::id> owner_{};  // who finished the last round
  std::string failure_;
  std::uint64_t generation_ = 0;
  std::uint64_t round_ = 0;
  std::atomic<std::uint64_t> finished_rounds_{0};
  std::vector<Contribution> contributions_;
  std::optional<Stream> user_;        // who reads the last results on a device, also beside a round that fails
  std::vector<std::uint32_t> order_;  // as they came in this round
  std::vector<bool> handed_over_;     // by bucket
  std::size_t not_handed_over_ = 0;
  std::atomic<int> in_flight_{0};  // buckets handed over and not complete

  std::mutex ready_lock_;
  struct Ready {
    std::size_t bucket = 0;
    bool as_void = false;
  };
  std::vector<Ready> ready_;                                  // handed over, not launched; guarded by ready_lock_
  std::vector<std::size_t> complete_;                         // buckets, and not passed on yet; guarded by ready_lock_
  std::vector<std::size_t> launched_;                         // progress lock, as the next one
  std::vector<std::int64_t> launched_at_;                     // by bucket; 0: while steps were not recorded
  bool as_void_ = false;                                      // how to launch what is handed over next
  std::exception_ptr error_;                                  // guarded by ready_lock_
  std::atomic<std::uint64_t> error_from_{~std::uint64_t{0}};  // the first round that cannot complete
};

}  // namespace kolo::engine
