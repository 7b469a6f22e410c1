#pragma once
// What NCCL reads from the environment of the process, and nowhere else.
#include <map>
#include <string>

#include "kolo/types.h"

namespace kolo::nccl {

using Environment = std::map<std::string, std::string>;

struct EnvironmentNeeds {
  bool shared_device = false;  // several ranks may be on one
  Rank rank = 0;               // of the world
};
// Variables to be set for kolo, beside those of `present`, whose values stand.
[[nodiscard]] Environment wanted_environment(const Environment& present, const EnvironmentNeeds& needs);

// The value of a variable; empty: it is not set.
[[nodiscard]] std::string value_of(const Environment& environment, const std::string& name);

// What in it would take away every deadline; empty: nothing.
[[nodiscard]] std::string blocking_trouble(const Environment& environment);

[[nodiscard]] Environment nccl_environment();  // NCCL_* of this process
// Sets what is wanted and returns what holds then. REQUIRES: before the first call of NCCL that makes anything, as NCCL
// reads each variable once. Changes nothing where all that is wanted is set already, as it is after the first time.
Environment prepare_environment(const EnvironmentNeeds& needs);

}  // namespace kolo::nccl
