#pragma once
#include <memory>

#include "kolo/context.h"

namespace kolo::test {

// Of the ranks that mpirun has started; on several hosts where PRETENDED_HOSTS says so, a digit for each rank.
// Collective.
[[nodiscard]] std::unique_ptr<Context> training_context();

}  // namespace kolo::test
