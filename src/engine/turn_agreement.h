#pragma once
// What the hosts agree on before a bucket's collective is enqueued on devices: an allreduce of nothing but flags, in
// which the lane's turn goes round (device_bucket.h).
#include <memory>
#include <vector>

#include "kolo/communicator.h"
#include "telemetry/counters.h"

namespace kolo::engine {

class TurnAgreement {
 public:
  // `communicator`: a bucket's own, between the hosts. `counters` is borrowed.
  TurnAgreement(std::unique_ptr<Communicator> communicator, telemetry::Counters* counters)
      : communicator_(std::move(communicator)), counters_(counters) {}

  [[nodiscard]] Rank rank() const noexcept { return communicator_->rank(); }
  [[nodiscard]] int size() const noexcept { return communicator_->size(); }
  // The words stay where they are until it is complete.
  void start(FlagWords flags);
  // True once complete. REQUIRES: started since the last time that it was.
  [[nodiscard]] bool advance();
  // Forgets what was started.
  void reset() noexcept { operation_.reset(); }
  [[nodiscard]] bool moved() noexcept { return communicator_->moved(); }
  [[nodiscard]] std::vector<Rank> waiting_for() const;

 private:
  std::unique_ptr<Communicator> communicator_;
  telemetry::Counters* counters_;
  std::unique_ptr<Operation> operation_;
};

}  // namespace kolo::engine
