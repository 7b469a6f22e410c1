#pragma once
// Failures that are known and whose consequences are still to come.
#include <chrono>
#include <cstdint>
#include <exception>

#include "engine/gradient_rounds.h"
#include "engine/messages.h"

namespace kolo::engine {

// Until this rank has ended the round in which a peer failed, its operations by name fail: they belong to that step.
struct FailedRound {
  GradientRounds* rounds = nullptr;
  std::uint64_t number = 0;
  std::uint64_t failure = 0;  // PeerFailedError::failure()
  std::exception_ptr error;
  [[nodiscard]] bool current() const { return rounds != nullptr && rounds->rounds_finished() <= number; }
};

// This rank's training code has failed, and it has asked for nothing since.
struct OwnFailure {
  std::string text;
  std::uint64_t calls = 0;  // that it had come to
};

// A failure of this rank that may be a peer's death: nothing is begun, and others are listened to, until that is known.
struct HeldFailure {
  Fatal fatal;
  std::chrono::steady_clock::time_point until;
};

}  // namespace kolo::engine
