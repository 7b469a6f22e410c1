#include "engine/turn_agreement.h"

namespace kolo::engine {

void TurnAgreement::start(FlagWords flags) {
  AllreduceOptions options;
  options.flags = flags;
  counters_->launches.add();
  operation_ = communicator_->start(options);
}

bool TurnAgreement::advance() {
  if (!operation_->advance()) return false;
  operation_.reset();
  return true;
}

std::vector<Rank> TurnAgreement::waiting_for() const {
  return operation_ == nullptr ? std::vector<Rank>{} : operation_->waiting_for();
}

}  // namespace kolo::engine
