#include "engine/turn_agreement.h"

namespace kolo::engine {

void TurnAgreement::launch(FlagWords flags) {
  AllreduceOptions options;
  options.flags = flags;
  counters_->launches.add();
  operation_ = communicator_->start(options);
}

void TurnAgreement::start(FlagWords flags, std::uint64_t& turn, std::uint64_t void_bits) {
  first_word_ = flags.words.data();
  void_bits_ = void_bits;
  turn_ = &turn;
  turn = lane_.has_one_reducer() ? lane_.take_turn() : 0;
  launch(flags);
}

void TurnAgreement::start(std::uint64_t& turn) {
  first_word_ = nullptr;
  turn_ = &turn;
  turn = lane_.take_turn();
  FlagWords flags;
  flags.words = {&turn, 1};
  launch(flags);
}

bool TurnAgreement::advance() {
  if (!operation_->advance()) return false;
  operation_.reset();
  const bool flags_only = first_word_ != nullptr && *turn_ == 0;
  if (!flags_only || (*first_word_ & void_bits_) != 0) return true;
  start(*turn_);
  return false;
}

bool TurnAgreement::takes_turn() noexcept {
  if (*turn_ == 0) return true;
  if (!lane_.is_turn(*turn_)) return false;
  lane_.end_turn();
  return true;
}

bool PlanTurn::take() {
  if (phase_ == Phase::idle) {
    agreement_.start(turn_);
    phase_ = Phase::asked;
  }
  if (phase_ == Phase::asked) {
    if (!agreement_.advance()) return false;
    phase_ = Phase::agreed;
  }
  if (!agreement_.takes_turn()) return false;
  phase_ = Phase::idle;
  return true;
}

std::vector<Rank> TurnAgreement::waiting_for() const {
  return operation_ == nullptr ? std::vector<Rank>{} : operation_->waiting_for();
}

}  // namespace kolo::engine
