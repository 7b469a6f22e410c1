#pragma once
// The file that --json names.
#include <fstream>
#include <string>

namespace kolo {
class Context;
}

namespace kolo::tools {

// Collective. Open on rank 0, and nowhere if `path` is empty. Throws UsageError on all ranks where it cannot be
// written: one that went alone would leave the others waiting for it.
[[nodiscard]] std::ofstream open_json(Context& context, const std::string& path);

}  // namespace kolo::tools
