#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "kolo/export.h"

namespace KOLO_EXPORT kolo {

// What happened so far in one Context, by name ("control_messages", "bytes_on_wire", "plan_hits", ...).
// docs/formats.md lists the names. A snapshot: differences of two are what happened between.
using CounterSnapshot = std::map<std::string, std::uint64_t>;

}  // namespace kolo
