#pragma once
// A stretch of the calling thread's time with a name, for profilers: Nsight Systems shows it, in NVTX's domain "kolo",
// above the kernels that were launched within. Where no profiler listens it costs one call that returns; in a build
// without NVTX's header, nothing.
#include <cstdint>

namespace kolo::telemetry {

class Range {
 public:
  // `name` is a literal; `number` is what tells this stretch from others of its name: bytes, a round.
  Range(const char* name, std::uint64_t number) noexcept;
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace kolo::telemetry
