#pragma once
// What a request and a table of gradients must satisfy before anything is sent.
#include <string>
#include <vector>

#include "kolo/spi/communicator.h"
#include "kolo/spi/engine.h"
#include "kolo/spi/gradient_reducer.h"

namespace kolo::engine {

// Throws UsageError for a name that is empty or kolo's own.
void check_name(const std::string& name);
// Why `rank`, one of `size`, cannot execute the request. Empty: it can.
[[nodiscard]] std::string refusal_of(const Request& request, int size, Rank rank);
// The same for a table of gradients.
[[nodiscard]] std::string refusal_of(const std::vector<GradientInfo>& table, const ReducerOptions& options);
// Of an algorithm that Config asks for, by the ranks of `communicator`.
[[nodiscard]] std::string refusal_of(Algorithm algorithm, const Communicator& communicator);

}  // namespace kolo::engine
