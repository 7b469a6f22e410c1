#pragma once
// One collective at one size, timed and verified, by one or two communicators in turns.
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kolo/communicator.h"
#include "kolo/types.h"

namespace kolo::tools {

struct PerfOptions {
  std::string operation = "allreduce";
  std::size_t min_bytes = 8;
  std::size_t max_bytes = std::size_t{256} << 20;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  Algorithm algorithm = Algorithm::automatic;
  bool registered = true;
  int iterations = 0;  // 0: chosen by size
};

// Somebody who can do the collective, and memory of his.
struct Contender {
  std::string name;  // "kolo", "mpi"
  Communicator* communicator = nullptr;
  RegisteredBuffer* buffer = nullptr;  // null where `data` is private
  std::byte* data = nullptr;           // max_bytes, for in-place operations and outputs
  std::byte* input = nullptr;          // max_bytes, for operations that are not in place
};

// Over all iterations, each taken as long as its slowest rank took.
struct Measured {
  std::string name;
  std::string algorithm;
  std::size_t bytes = 0;
  std::size_t count = 0;
  double p50_us = 0;
  double p99_us = 0;
  double algbw = 0;       // GB/s: bytes over p50
  double busbw = 0;       // GB/s: what the slowest link must carry
  std::size_t wrong = 0;  // elements, on all ranks
};

// Collective. One result per contender; the contenders take turns, one iteration each.
[[nodiscard]] std::vector<Measured> measure(const PerfOptions& options, std::span<const Contender> contenders,
                                            std::size_t bytes);
// GB/s of memory traffic (read and written) of all ranks together while all copy `bytes` with non-temporal stores.
// Collective.
[[nodiscard]] double measure_copy_rate(Communicator& communicator, std::size_t bytes);

}  // namespace kolo::tools
