#pragma once
// What ranks tell each other outside the gradient path, as plain collectives. Every function is collective: all ranks
// call it, in the same order.
#include <functional>
#include <span>
#include <string>

#include "kolo/context.h"

namespace imagenet {

// In place over all ranks; the same size on all of them.
void sum_over_ranks(kolo::Context& context, std::span<double> values);
void average_over_ranks(kolo::Context& context, std::span<float> values);

// Rank 0 does something alone (a file, say) and all ranks get what it returned. If it throws, all ranks throw.
std::string from_rank_0(kolo::Context& context, const std::function<std::string()>& action);

}  // namespace imagenet
