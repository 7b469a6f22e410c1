#pragma once
// What every Communicator must do, as functions that all ranks call with their own end. They report by EXPECT and never
// leave a rank behind in a collective.
#include <span>

#include "kolo/spi/communicator.h"

namespace kolo::test {

// A communicator that does not take every reduction, by design and with a UsageError, derives from this too: the cases
// leave out what it refuses.
class TakesSome {
 public:
  virtual ~TakesSome() = default;
  [[nodiscard]] virtual bool takes(DType dtype, ReduceOp op) const = 0;
};

struct ContractCase {
  const char* name;
  void (*body)(Communicator& communicator, Algorithm algorithm);
  bool reduces;  // by the algorithm that is asked for; other cases do not look at it
  void run(Communicator& communicator, Algorithm algorithm = Algorithm::automatic) const {
    body(communicator, algorithm);
  }
};

[[nodiscard]] std::span<const ContractCase> communicator_contract();

}  // namespace kolo::test
