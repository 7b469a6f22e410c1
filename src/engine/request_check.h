#pragma once
// What a request and a table of gradients must satisfy before anything is sent.
#include <vector>

#include "kolo/engine.h"
#include "kolo/gradient_reducer.h"

namespace kolo::engine {

// `size` ranks, of which this one is `rank`. Throws UsageError naming the request.
void check(const Request& request, int size, Rank rank);
// Throws UsageError naming the gradient.
void check(const std::vector<GradientInfo>& table, const ReducerOptions& options);

}  // namespace kolo::engine
