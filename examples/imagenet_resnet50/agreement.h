#pragma once
// Whether all ranks were given the same options.
#include <string>
#include <vector>

#include "options.h"

namespace imagenet {

// What must be equal on all ranks, as text: all but paths, threads and loader threads.
[[nodiscard]] std::string terms_of(const Options& options);

// Of all ranks' terms, by rank: the first in which one differs from rank 0, with the option, both values and both
// ranks. Empty: none.
[[nodiscard]] std::string disagreement_of(const std::vector<std::string>& terms);

}  // namespace imagenet
