#pragma once
// What the hosts agree on before a bucket's collective is enqueued on devices: an allreduce of nothing but flags, and
// the lane's turn, which only rank 0 gives (device_bucket.h).
//
// Where one reducer alone uses the lane the turn travels with the flags. Where there are several, that could wait for
// ever: a bucket that some rank hands over in the finish() of the second reducer only would have a turn before one that
// all wait for in the finish() of the first. So there the turn is given when the flags have come from all ranks, and
// goes round by itself: whatever has a turn is enqueued by everybody without waiting for anybody.
#include <memory>
#include <vector>

#include "device/lane.h"
#include "kolo/spi/communicator.h"
#include "telemetry/counters.h"

namespace kolo::engine {

class TurnAgreement {
 public:
  // `communicator`: a bucket's own, between the hosts. `lane` and `counters` are borrowed.
  TurnAgreement(std::unique_ptr<Communicator> communicator, device::Lane& lane, telemetry::Counters* counters)
      : communicator_(std::move(communicator)), lane_(lane), counters_(counters) {}

  [[nodiscard]] Rank rank() const noexcept { return communicator_->rank(); }
  [[nodiscard]] int size() const noexcept { return communicator_->size(); }
  // On flags, `turn` among them; without a turn where any of `void_bits` is in the first word then. The words stay
  // where they are until it is complete.
  void start(FlagWords flags, std::uint64_t& turn, std::uint64_t void_bits);
  // On a turn, of those who come to this call.
  void start(std::uint64_t& turn);
  // True once complete: `turn` is the lane's, or 0 where there is none. REQUIRES: started since the last time that it
  // was.
  [[nodiscard]] bool advance();
  // Whether the turn that was agreed on has come, which ends it: what is enqueued now is in everybody's order. At once
  // where there is none. REQUIRES: complete.
  [[nodiscard]] bool takes_turn() noexcept;
  // Forgets what was started.
  void reset() noexcept { operation_.reset(); }
  [[nodiscard]] bool moved() noexcept { return communicator_->made_progress(); }
  [[nodiscard]] std::vector<Rank> waiting_for() const;

 private:
  void launch(FlagWords flags);

  std::unique_ptr<Communicator> communicator_;
  device::Lane& lane_;
  telemetry::Counters* counters_;
  std::unique_ptr<Operation> operation_;
  const std::uint64_t* first_word_ = nullptr;  // of flags
  std::uint64_t void_bits_ = 0;
  std::uint64_t* turn_ = nullptr;
};

// Turns for what is no bucket: a plan's memory on devices, which all ranks get together, and which must not come
// between other reducers' buckets here and behind them there.
class PlanTurn {
 public:
  PlanTurn(std::unique_ptr<Communicator> communicator, device::Lane& lane, telemetry::Counters* counters)
      : agreement_(std::move(communicator), lane, counters) {}

  // True once a time, which ends the turn: what is enqueued now is in everybody's order. Until then all ranks call
  // this again and again, and wait for nothing but each other's first call.
  [[nodiscard]] bool take();
  // It was asked for, and has not been taken.
  [[nodiscard]] bool under_way() const noexcept { return phase_ != Phase::idle; }
  // Until the turn is agreed on.
  [[nodiscard]] std::vector<Rank> waiting_for() const { return agreement_.waiting_for(); }

 private:
  enum class Phase { idle, asked, agreed };
  TurnAgreement agreement_;
  std::uint64_t turn_ = 0;
  Phase phase_ = Phase::idle;
};

}  // namespace kolo::engine
