#pragma once
// The few value types that every part of kolo shares.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kolo/export.h"

namespace KOLO_EXPORT kolo {

using Rank = int;

// Element types on the wire and in memory. `boolean` is one byte, 0 or 1.
enum class DType : std::uint8_t { f32, f64, f16, bf16, i8, u8, i16, i32, i64, boolean };

// average of integers: the sum is formed in 64 bits and divided by the world size, truncating towards zero, so
// it is exact when all inputs are equal and the sum fits into 64 bits (an i64's may not, and wraps). Sums and products
// of integers wrap (modulo 2^bits). boolean: sum and max are OR; min, average and product are AND.
//
// average of floating types: the sum over all ranks, divided by the number of ranks. No partial sum
// overflows if the absolute values of all ranks, after prescale, add up to at most this bound:
//
//   f32 3.4028e38   f64 1.7976e308   bf16 3.3895e38   f16 65504
//
// Each of p ranks may contribute 1/p of the bound; above it the average may be infinite. On one host,
// in host memory, f16 has no bound. For larger values use a sum with prescale 1/p.
enum class ReduceOp : std::uint8_t { sum, average, min, max, product };

[[nodiscard]] std::size_t size_of(DType dtype) noexcept;
// Whether it can be scaled, and cast into others of its kind.
[[nodiscard]] constexpr bool is_floating(DType dtype) noexcept {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 || dtype == DType::bf16;
}
[[nodiscard]] std::string_view name_of(DType dtype) noexcept;
[[nodiscard]] std::string_view name_of(ReduceOp op) noexcept;
// Inverse of name_of ("f32", "average"); throws UsageError listing the known names.
[[nodiscard]] DType parse_dtype(std::string_view text);
[[nodiscard]] ReduceOp parse_reduce_op(std::string_view text);

// Where a rank stands. `cross_rank` numbers the hosts; hosts are numbered by their lowest rank.
struct Placement {
  Rank rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int cross_rank = 0;
  int cross_size = 1;
  std::string host;
  // Which of its host's GPUs is this rank's, counted round where a process sees fewer: its number among the processes
  // that were started together on the host. A rank of a part of that world, or one that has survived others, keeps it.
  int device = 0;
  // Cores that the ranks of this host may use together: the union of their affinity masks, capped by the CPU quota of
  // their cgroup.
  int local_cores = 1;
  // Threads of this rank: OMP_NUM_THREADS, else an equal share of local_cores.
  int threads = 1;
};

}  // namespace kolo
