#pragma once
// Failures of peers that this rank's program has not been told of. What the peer would have had to do meanwhile does
// not happen, and the program does not know it: its operations by name fail, the collectives that it calls directly
// are limited, and a reducer that the peer has not made cannot be made. The program is told by the end of the round
// that the failure names, or, where it names none, by an error that carries its number.
#include <exception>
#include <map>
#include <vector>

#include "base/call_limit.h"
#include "engine/gradient_rounds.h"
#include "engine/messages.h"

namespace kolo::engine {

struct UntoldFailure {
  Fatal failure;
  std::uint64_t number = 0;          // PeerFailedError::failure()
  GradientRounds* rounds = nullptr;  // null: it names none
  std::uint64_t round = 0;
  std::exception_ptr error = {};

  [[nodiscard]] bool told() const { return rounds != nullptr && rounds->rounds_finished() > round; }
  // Whether the rank failed before it had made this reducer.
  [[nodiscard]] bool came_before(std::size_t reducer) const { return reducer >= failure.reducers; }
};

// Externally synchronized.
class UntoldFailures {
 public:
  explicit UntoldFailures(base::CallLimit& calls) : calls_(calls) {}

  // Calls that the peer does not come to throw its error from now on. True: one has begun already.
  bool add(UntoldFailure failure);
  // An error with this number has reached the program.
  void tell(std::uint64_t number);
  // This rank's training code fails too, having come to as many calls: it is at the same place then. The first failure
  // of each such rank, by number: one that has failed twice is further on.
  [[nodiscard]] std::map<Rank, std::uint64_t> answer(std::uint64_t calls);
  // A round has ended.
  void tell_of_rounds();
  // A reducer is gone.
  void forget(const GradientRounds& rounds);

  // Null: there is none.
  [[nodiscard]] const UntoldFailure* find(std::uint64_t number) const;
  // Whose error operations by name have. Null: there is none.
  [[nodiscard]] const UntoldFailure* first() const;
  // Because of which no peer comes to make this reducer.
  [[nodiscard]] const UntoldFailure* before(std::size_t reducer) const;

 private:
  template <class Told>
  void lift(Told told);

  base::CallLimit& calls_;
  std::vector<UntoldFailure> failures_;
};

}  // namespace kolo::engine
