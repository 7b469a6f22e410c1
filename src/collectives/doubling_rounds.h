#pragma once
// What a rank does in an allreduce by recursive doubling: see recursive_doubling.cpp.
#include <cstddef>
#include <vector>

#include "collectives/reduction.h"
#include "kolo/types.h"

namespace kolo::collectives {

struct DoublingRound {
  enum class Kind {
    hand_in,   // a surplus rank: sends all that it has; what comes is the result
    fold,      // adds what a surplus rank sends
    halve,     // sends the half that the partner keeps, adds what comes to the half that this rank keeps
    exchange,  // sends all that it keeps, adds what comes
    spread,    // sends the result of what it keeps; what comes is that of the other half
    unfold,    // sends the result to a surplus rank
  };
  static constexpr Rank kNobody = -1;

  Kind kind = Kind::exchange;
  Rank to = kNobody;
  Rank from = kNobody;
  Range sent;
  Range received;
  bool last = false;  // what is added here is the result

  // Flag words travel with what is not known everywhere yet.
  [[nodiscard]] bool has_flags() const noexcept { return kind != Kind::spread; }
  [[nodiscard]] bool adds() const noexcept {
    return kind == Kind::fold || kind == Kind::halve || kind == Kind::exchange;
  }
};

// Of `halvings` as many are made as leave every rank something.
[[nodiscard]] std::vector<DoublingRound> doubling_rounds(Rank rank, int size, std::size_t count, std::size_t grain,
                                                         int halvings);

}  // namespace kolo::collectives
