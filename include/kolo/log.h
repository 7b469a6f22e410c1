#pragma once
#include <functional>
#include <string_view>

#include "kolo/export.h"

namespace KOLO_EXPORT kolo {

enum class LogLevel : unsigned char { debug, info, warn, error };

// Receives every line kolo has to say; may be called from any thread, must not call kolo. The default writes to stderr.
using LogSink = std::function<void(LogLevel level, std::string_view line)>;

}  // namespace kolo
