// The twin of range_nvtx.cpp, for a build without NVTX's header.
#include "telemetry/range.h"

namespace kolo::telemetry {

Range::Range(const char*, std::uint64_t) noexcept {}
Range::~Range() = default;

}  // namespace kolo::telemetry
