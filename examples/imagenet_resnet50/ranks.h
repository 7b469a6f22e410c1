#pragma once
// What ranks tell each other outside the gradient path, as plain collectives. Every function is collective: all ranks
// call it, in the same order. Each call tells the others its purpose and length first: if ranks are in different calls,
// every rank throws kolo::MismatchError, which names them.
#include <functional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "kolo/context.h"

namespace imagenet {

using Where = std::source_location;  // of the call: its purpose

// Every rank's text, by rank.
std::vector<std::string> gather(kolo::Context& context, const std::string& text, Where where = Where::current());

// In place over all ranks; the same size on all of them.
void sum_over_ranks(kolo::Context& context, std::span<double> values, Where where = Where::current());
void average_over_ranks(kolo::Context& context, std::span<float> values, Where where = Where::current());

// Rank 0 does something alone (a file, say) and all ranks get what it returned. If it throws, all ranks throw.
std::string from_rank_0(kolo::Context& context, const std::function<std::string()>& action,
                        Where where = Where::current());

}  // namespace imagenet
