#pragma once
// For whoever started this process and judges how it ended (`kolo run`): several ranks end when one fails, in any
// order, and this tells the one that failed from those that were told of it.
#include <optional>
#include <string>

namespace kolo::base {

// What this process saw first.
enum class FirstFailure : char {
  own = 'o',  // it failed itself, or shut its group down
  peer = 'p'  // it was told that another rank has
};

// The first call in a process counts, where somebody has asked for it by KOLO_RUN_FAILURE; otherwise there is no
// effect.
void report_first_failure(FirstFailure seen) noexcept;

// The other side of a pair of connected sockets, of which the child that is to report inherits `theirs`.
[[nodiscard]] std::string first_failure_variable(int theirs);  // the value of KOLO_RUN_FAILURE; the name is kept here
inline constexpr const char* kFirstFailureVariable = "KOLO_RUN_FAILURE";
// What was reported at `ours` so far, without waiting. Taken: asked again, it says nothing.
[[nodiscard]] std::optional<FirstFailure> take_first_failure(int ours) noexcept;

}  // namespace kolo::base
