#pragma once
// Telling the user what went wrong on which ranks: once, not once a rank.
#include <exception>
#include <string>
#include <vector>

#include "kolo/context.h"

namespace imagenet {

// By rank what went wrong there; empty: nothing. What all ranks say is said once and without ranks, else every text
// with the ranks that say it: "ranks 0, 2: text", a line each.
[[nodiscard]] std::string summary_of(const std::vector<std::string>& texts);

// On the standard error stream. Collective while the ranks can still talk to each other: then rank 0 speaks for all;
// else this rank speaks for itself.
void report_failure(kolo::Context& context, const std::exception& error);

}  // namespace imagenet
