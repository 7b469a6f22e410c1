#pragma once
// Which algorithm runs an allreduce. Fixed constants and nothing measured, so that all ranks choose alike and runs
// repeat bitwise.
#include "kolo/communicator.h"

namespace kolo::comm {

struct Surroundings {
  int size = 1;
  bool shared_memory = false;  // all ranks on one host, with memory that all of them have mapped
};

enum class Way {
  alone,
  in_place,      // direct, on the registered buffer
  lanes,         // direct, through lanes, one-shot
  sliced_lanes,  // direct, through lanes, sliced
  ring,
};

struct Selection {
  Way way;
  Choice choice;
};

// Registered data up to this goes through lanes too: one synchronisation instead of two.
inline constexpr std::size_t kSmallRegisteredBytes = 2048;

// Throws UsageError when options.algorithm cannot be had.
[[nodiscard]] Selection select(const AllreduceOptions& options, const Surroundings& surroundings);
// For the hot path: the same without the words.
[[nodiscard]] Way select_way(const AllreduceOptions& options, const Surroundings& surroundings);

}  // namespace kolo::comm
