#pragma once
// Value types that all of kolo shares.
//
//   const kolo::Placement& place = context.placement();
//   std::printf("rank %d of %d on %s\n", place.rank, place.size, place.host.c_str());
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kolo/detail/export.h"

namespace KOLO_EXPORT kolo {

using Rank = int;

// Element types on the wire and in memory. `boolean` is one byte, 0 or 1.
enum class DType : std::uint8_t { f32, f64, f16, bf16, i8, u8, i16, i32, i64, boolean };

// Sums and products of integers wrap (modulo 2^bits). boolean: sum and max are OR; min, average and product are AND.
//
// average of integers: the sum is formed in 64 bits and divided by the world size, truncating towards zero. The
// result is exact if all inputs are equal and the sum fits into 64 bits.
//
// average of floating types divides after the sum. If the absolute values of all ranks, after prescale, add up to more
// than the largest value of the type, the average may be infinite:
//
//   f32 3.4028e38   f64 1.7976e308   bf16 3.3895e38   f16 65504
//
// On one host, in CPU memory, f16 has no such limit. Above the limit, use a sum with prescale 1.0 / Placement::size.
enum class ReduceOp : std::uint8_t { sum, average, min, max, product };

// Bytes of one element.
[[nodiscard]] std::size_t size_of(DType dtype) noexcept;
[[nodiscard]] constexpr bool is_floating(DType dtype) noexcept {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 || dtype == DType::bf16;
}
[[nodiscard]] std::string_view name_of(DType dtype) noexcept;
[[nodiscard]] std::string_view name_of(ReduceOp op) noexcept;
// Inverse of name_of ("f32", "average"). Throws UsageError that lists the known names.
[[nodiscard]] DType parse_dtype(std::string_view text);
[[nodiscard]] ReduceOp parse_reduce_op(std::string_view text);

// The algorithm of an allreduce; docs/algorithms.md describes each.
enum class Algorithm : std::uint8_t {
  automatic,
  direct,
  ring,
  tree,
  halving_doubling,
  recursive_doubling,
  hierarchical,
  mpi
};
// "auto", "ring", "halving_doubling"
[[nodiscard]] std::string_view name_of(Algorithm algorithm) noexcept;

// The host and the numbers of a rank. `cross_rank` is the index of its host; hosts are ordered by their lowest rank.
struct Placement {
  Rank rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int cross_rank = 0;
  int cross_size = 1;
  std::string host;
  // The index of this rank among the processes that were started together on its host. use_cuda() selects the GPU with
  // this index modulo the number of visible GPUs. A rank keeps its index in a smaller world, for example of survivors.
  int device = 0;
  // Cores that the ranks of this host may use together: the union of their affinity masks, capped by the CPU quota of
  // their cgroup.
  int local_cores = 1;
  // Recommended number of threads for this rank: OMP_NUM_THREADS if it is set, otherwise an equal part of local_cores.
  // kolo does not apply it.
  int threads = 1;
};

// The CUDA stream that produces the caller's memory. The default means CPU memory, which is ready when the call is
// made. `handle` is a cudaStream_t, not owned; null with a device is that device's default stream.
struct Stream {
  void* handle = nullptr;
  int device = -1;  // -1: CPU

  [[nodiscard]] bool on_host() const noexcept { return device < 0; }
};

}  // namespace kolo
