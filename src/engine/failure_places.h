#pragma once
// The places in the program at which training code has failed, on this rank or on others, and which of them the program
// here has yet to hear of.
//
// Several ranks may fail at one place, as where all find that a file is missing; the program goes on from there once.
// An announcement says what its rank had heard of by then, and so all ranks put a failure at the same place:
//
//   it had heard of none of the failures there    it is one of them, if it has made as many calls and reducers
//   it had, but its program had not been told     it says so itself (Fatal::answered)
//   its program had been told                     it has gone on from there: this is another place
//
// What a peer that has failed would have had to do until the program here is told does not happen: its operations by
// name fail, the collectives that it calls directly are limited, and a reducer that the peer has not made cannot be
// made. The program is told by the end of the round that the failure names, or, where it names none, by an error that
// carries its number.
#include <chrono>
#include <exception>
#include <set>
#include <vector>

#include "base/call_limit.h"
#include "engine/gradient_rounds.h"
#include "engine/messages.h"

namespace kolo::engine {

// A failure of this rank that may be a peer's death: until that is known, the engine begins nothing and listens.
struct HeldFailure {
  Fatal fatal;
  std::chrono::steady_clock::time_point until;
};

struct FailurePlace {
  Fatal failure;                       // the first one there that was heard of
  std::vector<std::uint64_t> numbers;  // of all there: PeerFailedError::failure()
  GradientRounds* rounds = nullptr;    // of failure.failed_round; null: it names none, or they are gone
  std::exception_ptr error = {};       // what the program will be told
  std::set<Rank> ranks = {};           // who has failed there
  bool over = false;                   // the program has been told, or has failed there itself

  [[nodiscard]] bool told() const {
    return over || (rounds != nullptr && rounds->rounds_finished() > failure.failed_round->round);
  }
  // Whether the rank failed before it had made this reducer.
  [[nodiscard]] bool came_before(std::size_t reducer) const { return reducer >= failure.reducers; }
};

// Externally synchronized.
class FailurePlaces {
 public:
  explicit FailurePlaces(base::CallLimit& calls) : calls_(calls) {}

  // A peer has failed at a place that is known: which. Null: at another one, to be added.
  const FailurePlace* join(const Fatal& failure, std::uint64_t number);
  // Calls that the peer does not come to throw its error from now on. True: one has begun already.
  bool add(FailurePlace place);
  // This rank's training code fails: at the place that its program would have been told of next, if it has made as many
  // calls and reducers, and is over it then. Returns the failures there.
  [[nodiscard]] std::vector<std::uint64_t> fail(const Fatal& own);
  // The first failure of this rank that had no number yet has got one.
  void came_back(std::uint64_t number);

  // An error with this number has reached the program.
  void tell(std::uint64_t number);
  // A round has ended.
  void tell_of_rounds();
  // A reducer is gone.
  void forget(const GradientRounds& rounds);

  // Of those that the program has not been told of, null where there is none:
  [[nodiscard]] const FailurePlace* find(std::uint64_t number) const;
  [[nodiscard]] const FailurePlace* first() const;
  // Because of which no peer comes to make this reducer.
  [[nodiscard]] const FailurePlace* before(std::size_t reducer) const;

 private:
  void end(FailurePlace& place);
  template <class Told>
  void end_all(Told told);
  [[nodiscard]] FailurePlace* place_of(const Fatal& failure);

  base::CallLimit& calls_;
  std::vector<FailurePlace> places_;  // in order; of those that are over the latest
  std::uint64_t own_failures_ = 0;
};

}  // namespace kolo::engine
