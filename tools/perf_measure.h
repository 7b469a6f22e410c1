#pragma once
// One collective at one size, timed and verified, by one or two communicators in turns.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/context.h"
#include "kolo/spi/communicator.h"
#include "kolo/types.h"

namespace kolo::tools {

struct PerfOptions {
  std::string operation = "allreduce";
  std::size_t min_bytes = 8;
  std::size_t max_bytes = std::size_t{256} << 20;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  bool registered = true;
  int iterations = 0;                                        // 0: chosen by size
  int block = 1;                                             // iterations of one contender in a row
  bool rests = false;                                        // before each operation, as measuring between hosts does
  bool one_clock = false;                                    // see can_begin_together()
  std::chrono::milliseconds limit{std::chrono::minutes(5)};  // of every wait for the other ranks
};

// Whether ranks can begin at the same instant: all are on one host, with a core each. Of two that share a core one
// would hold it until then.
[[nodiscard]] bool can_begin_together(const Placement& placement);
// What one operation of so many bytes is preceded by.
[[nodiscard]] std::chrono::microseconds rest_before(const PerfOptions& options, std::size_t bytes);

// Somebody who can do the collective, and memory of his.
struct Contender {
  std::string name;  // "kolo", "mpi"
  Communicator* communicator = nullptr;
  RegisteredBuffer* buffer = nullptr;          // null where `data` is private
  std::byte* data = nullptr;                   // max_bytes, for in-place operations and outputs
  std::byte* input = nullptr;                  // max_bytes, for operations that are not in place
  Algorithm algorithm = Algorithm::automatic;  // of an allreduce
};

// Bytes that begin on a cache line.
struct AlignedMemory {
  explicit AlignedMemory(std::size_t bytes) : storage(bytes + 64) {}
  [[nodiscard]] std::byte* data() {
    return storage.data() + (64 - reinterpret_cast<std::uintptr_t>(storage.data()) % 64) % 64;
  }
  std::vector<std::byte> storage;
};

// The inverse of name_of(). Throws UsageError that lists the names.
[[nodiscard]] Algorithm parse_algorithm(std::string_view text);
// "auto, direct, ..."
[[nodiscard]] std::string algorithm_names();

// "2 ranks on 1 host".
[[nodiscard]] std::string describe(const Placement& placement);

// Throws UsageError for sizes in the wrong order.
void check_sizes(const PerfOptions& options);

// The sum of all ranks' numbers. Collective.
[[nodiscard]] std::size_t total(Communicator& communicator, std::size_t mine, std::chrono::milliseconds limit);

// Over all iterations, each taken as long as its slowest rank took.
struct Measured {
  std::string name;
  std::string algorithm;
  std::size_t bytes = 0;
  std::size_t count = 0;
  double p50_us = 0;
  double p99_us = 0;
  double algbw = 0;         // GB/s: bytes over p50
  double busbw = 0;         // GB/s: what the slowest link must carry
  std::size_t wrong = 0;    // elements, on all ranks
  double predicted_us = 0;  // by the cost model; 0: it knows nothing of it
};

// Collective. One result per contender; the contenders take turns, `options.block` iterations each, or fewer where that
// would make fewer than four turns. Before several in a row goes one more, which does not count.
[[nodiscard]] std::vector<Measured> measure(const PerfOptions& options, std::span<const Contender> contenders,
                                            std::size_t bytes);
// GB/s of memory traffic (read and written) of all ranks together while all copy `bytes` with non-temporal stores.
// Collective.
[[nodiscard]] double measure_copy_rate(Communicator& communicator, std::size_t bytes, std::chrono::milliseconds limit);

}  // namespace kolo::tools
