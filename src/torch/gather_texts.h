#pragma once
#include <string>
#include <vector>

#include "kolo/context.h"

namespace kolo {

// Every rank's text, in rank order, on every rank. Collective.
[[nodiscard]] std::vector<std::string> gather_texts(Context& context, const std::string& mine);

}  // namespace kolo
